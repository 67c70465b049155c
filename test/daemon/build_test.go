package daemon

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// archive is a tar archive of one file.
func archive(t *testing.T, name, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte(text))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestBuildsOfAnother: an account reaches no files, no cache, no template and no log of another one's builds. Each
// attempt is made by their owner too, who reaches them.
func TestBuildsOfAnother(t *testing.T) {
	w := newTown(t)
	call := func(key api.CreatedKey, method, path, body string) (int, string) {
		t.Helper()
		return w.Call(method, path, body, "X-API-KEY", key.Secret)
	}
	upload := func(key api.CreatedKey, text string) (out api.BuildFiles) {
		t.Helper()
		status, answer := call(key, "POST", "/v1/templates/files", archive(t, "a", text))
		if err := json.Unmarshal([]byte(answer), &out); err != nil || status != http.StatusCreated {
			t.Fatalf("upload: %d %s", status, answer)
		}
		return out
	}
	build := func(key api.CreatedKey, name, dockerfile, files string) (int, string) {
		t.Helper()
		body, err := json.Marshal(api.BuildTemplate{Name: name, Dockerfile: dockerfile, Files: files, Isolation: "container"})
		if err != nil {
			t.Fatal(err)
		}
		return call(key, "POST", "/v1/templates/build", string(body))
	}
	const file = "FROM host\nCOPY a /home/user/a\nRUN cat /home/user/a; echo ran\nENV X=1"
	files := upload(w.alice, "of alice\n")
	status, answer := build(w.alice, "alices", file, files.ID)
	if !strings.Contains(answer, `"done"`) {
		if strings.Contains(answer, string(api.KindUnisolated)) || strings.Contains(answer, "container backend") {
			t.Skipf("this host cannot run containers: %s", answer)
		}
		t.Fatalf("a build: %d %s", status, answer)
	}
	if !strings.Contains(answer, "of alice") {
		t.Errorf("the output of a step is missing: %s", answer)
	}
	if _, answer := build(w.alice, "alices", file, files.ID); strings.Contains(answer, `"ran"`) || !strings.Contains(answer, "every step is cached") {
		t.Errorf("the owner's second build: %s", answer)
	}

	never := strings.Repeat("0", 64)
	status, answer = build(w.bob, "bobs", file, files.ID)
	s, a := build(w.bob, "bobs", file, never)
	if s != status || strings.ReplaceAll(answer, files.ID[:12], "ID") != strings.ReplaceAll(a, never[:12], "ID") || !strings.Contains(answer, "not_found") {
		t.Errorf("another's files: %d %s; none: %d %s", status, answer, s, a)
	}
	// The same files, uploaded by both: the key is the same, and the cache is not shared.
	own := upload(w.bob, "of alice\n")
	if own.ID != files.ID {
		t.Errorf("the same files have the IDs %s and %s", own.ID, files.ID)
	}
	if _, answer := build(w.bob, "bobs", file, own.ID); !strings.Contains(answer, `"ran"`) || strings.Contains(answer, "cached") {
		t.Errorf("another's cache was used: %s", answer)
	}
	// Nor by an admin, who sees the snapshots of all accounts.
	own = upload(w.operator, "of alice\n")
	if _, answer := build(w.operator, "operators", file, own.ID); !strings.Contains(answer, `"ran"`) || strings.Contains(answer, "cached") {
		t.Errorf("another's cache was used by an admin: %s", answer)
	}
	for _, from := range []string{"FROM alices", "FROM host\nCOPY --from=alices /home/user/a /home/user/b"} {
		if status, answer := build(w.bob, "stolen", from+"\nRUN true", ""); !strings.Contains(answer, "not_found") {
			t.Errorf("%q of another: %d %s", from, status, answer)
		}
		if status, answer := build(w.alice, "again", from+"\nRUN true", ""); !strings.Contains(answer, `"done"`) {
			t.Errorf("%q of one's own: %d %s", from, status, answer)
		}
	}

	// The same by E2B's API.
	hash := strings.Repeat("ab", 32)
	status, answer = call(w.alice, "POST", "/v3/templates", `{"name":"wired"}`)
	var made struct{ BuildID string }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || status != http.StatusAccepted {
		t.Fatalf("request: %d %s", status, answer)
	}
	var link struct {
		Present bool
		URL     string
	}
	linked := func(key api.CreatedKey) {
		t.Helper()
		status, answer := call(key, "GET", "/templates/wired/files/"+hash, "")
		if err := json.Unmarshal([]byte(answer), &link); err != nil || status != http.StatusCreated {
			t.Fatalf("link: %d %s", status, answer)
		}
	}
	linked(w.alice)
	at := strings.TrimPrefix(link.URL, w.URL)
	if status, answer := w.Call("PUT", at, archive(t, "a", "x")); status != http.StatusOK || at == link.URL {
		t.Fatalf("upload to %s: %d %s", link.URL, status, answer)
	}
	if status, answer := w.Call("PUT", at[:len(at)-1], archive(t, "a", "x")); status != http.StatusNotFound {
		t.Errorf("an upload with another ticket: %d %s", status, answer)
	}
	if linked(w.alice); !link.Present {
		t.Error("the owner's files are not present")
	}
	if linked(w.bob); link.Present {
		t.Error("another's files are present")
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/templates/wired/builds/" + made.BuildID + "/status", ""},
		{"POST", "/v2/templates/wired/builds/" + made.BuildID, `{"fromTemplate":"base","steps":[]}`},
		{"GET", "/templates/alices/tags", ""},
		{"GET", "/templates/aliases/alices", ""},
	} {
		if status, answer := call(w.bob, c.method, c.path, c.body); status != http.StatusNotFound {
			t.Errorf("%s %s of another: %d %s", c.method, c.path, status, answer)
		}
		if status, answer := call(w.alice, c.method, c.path, c.body); status/100 != 2 {
			t.Errorf("%s %s of one's own: %d %s", c.method, c.path, status, answer)
		}
	}
	end := time.Now().Add(patience.Of(time.Minute))
	for !strings.Contains(answer, `"ready"`) && time.Now().Before(end) {
		_, answer = call(w.alice, "GET", "/templates/wired/builds/"+made.BuildID+"/status", "")
	}
	if !strings.Contains(answer, `"ready"`) {
		t.Errorf("the build of the control: %s", answer)
	}
}
