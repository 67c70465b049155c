package e2b_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/server/e2b"
	"hortus.dev/internal/server/token"
	"hortus.dev/internal/storage/volume"
	"hortus.dev/internal/store/database"
)

// withVolumes gives the server real volumes and tokens.
func withVolumes(t *testing.T) func(*e2b.Config) {
	t.Helper()
	dir := t.TempDir()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(dir, "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := volume.Open(t.Context(), volume.Config{Dir: filepath.Join(dir, "volumes"), Rows: db, CheckSpace: func(context.Context, string, string, int64) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := token.Open(filepath.Join(dir, "tokens.key"))
	if err != nil {
		t.Fatal(err)
	}
	return func(cfg *e2b.Config) {
		cfg.Volumes, cfg.VolumeTokens = access.NewVolumes(s, quota.NewRates(quota.RatesConfig{})), tokens
	}
}

type madeVolume struct{ VolumeID, Name, Token string }

func (w *world) volume(t *testing.T, name, key string) (v madeVolume) {
	t.Helper()
	r := w.ask(t, "POST", "/volumes", `{"name":"`+name+`"}`, "X-API-KEY", key)
	if err := json.Unmarshal([]byte(r.body), &v); err != nil || r.status != http.StatusCreated || !api.VolumeID(v.VolumeID).Valid() || v.Token == "" {
		t.Fatal(r.status, r.body)
	}
	return v
}

// TestVolumeRoutes uses volumes and their files as an SDK does, and as others do.
func TestVolumeRoutes(t *testing.T) {
	w := newWorld(t, withVolumes(t))
	one, two, others := w.volume(t, "one", keyA), w.volume(t, "two", keyA), w.volume(t, "one", keyB)
	at := func(v madeVolume) string { return "/volumecontent/" + v.VolumeID }
	own := "Bearer " + one.Token
	for _, c := range []struct {
		name, method, path, body string
		key, auth                string
		status                   int
		want                     string // in the answer
	}{
		{"a list has no tokens", "GET", "/volumes", "", keyA, "", 200, `[{"volumeID":"` + two.VolumeID + `","name":"two"},{"volumeID":"` + one.VolumeID + `","name":"one"}]`},
		{"a list of another account", "GET", "/volumes", "", keyB, "", 200, `[{"volumeID":"` + others.VolumeID + `","name":"one"}]`},
		{"a list of an admin", "GET", "/volumes", "", keyAdmin, "", 200, `[]`},
		{"one", "GET", "/volumes/" + one.VolumeID, "", keyA, "", 200, `"token":"` + one.Token + `"`},
		{"of another account", "GET", "/volumes/" + one.VolumeID, "", keyB, "", 404, "unknown volume"},
		{"of another account, by an admin", "GET", "/volumes/" + one.VolumeID, "", keyAdmin, "", 404, "unknown volume"},
		{"the removal, by another account", "DELETE", "/volumes/" + one.VolumeID, "", keyB, "", 404, "unknown volume"},
		{"that does not exist", "GET", "/volumes/" + string(api.NewVolumeID()), "", keyA, "", 404, "unknown volume"},
		{"without a key", "GET", "/volumes", "", "", "", 401, "API key"},
		{"with a token instead of a key", "GET", "/volumes", "", "", own, 401, "API key"},
		{"the name is taken", "POST", "/volumes", `{"name":"one"}`, keyA, "", 409, "exists"},
		{"no name", "POST", "/volumes", `{}`, keyA, "", 400, "name"},
		{"a name that is a path", "POST", "/volumes", `{"name":"../x"}`, keyA, "", 400, "name"},
		{"an unknown option", "POST", "/volumes", `{"name":"x","size":1}`, keyA, "", 400, "size"},

		{"a file", "PUT", at(one) + "/file?path=/a.txt", "hello", "", own, 201, `"path":"/a.txt","type":"file","size":5,"mode":420,"uid":1000,"gid":1000`},
		{"the file is there", "PUT", at(one) + "/file?path=/a.txt", "other", "", own, 409, "exists"},
		{"its content", "GET", at(one) + "/file?path=a.txt", "", "", own, 200, "hello"},
		{"with force", "PUT", at(one) + "/file?path=/a.txt&force=true&mode=384&uid=0&gid=7", "hello2", "", own, 201, `"size":6,"mode":384,"uid":0,"gid":7`},
		{"its new content", "GET", at(one) + "/file?path=a.txt", "", "", own, 200, "hello2"},
		{"an API key does not open files", "GET", at(one) + "/file?path=/a.txt", "", keyA, "", 401, "token of the volume"},
		{"an API key is no token", "GET", at(one) + "/file?path=/a.txt", "", "", "Bearer " + keyA, 401, "token of the volume"},
		{"no token", "GET", at(one) + "/file?path=/a.txt", "", "", "", 401, "token of the volume"},
		{"the token of another volume", "GET", at(one) + "/file?path=/a.txt", "", "", "Bearer " + two.Token, 401, "token of the volume"},
		{"the token of another account", "PUT", at(one) + "/file?path=/b.txt", "x", "", "Bearer " + others.Token, 401, "token of the volume"},
		{"the token, of another scheme", "GET", at(one) + "/file?path=/a.txt", "", "", "Basic " + one.Token, 401, "token of the volume"},
		{"a token for what does not exist", "GET", "/volumecontent/" + string(api.NewVolumeID()) + "/file?path=/a.txt", "", "", own, 401, "token of the volume"},
		{"an ID that is a path", "GET", "/volumecontent/..%2f" + one.VolumeID + "/file?path=/a.txt", "", "", own, 404, "unknown route"},
		{"above the root", "GET", at(one) + "/file?path=../" + two.VolumeID + "/a", "", "", own, 400, "component"},
		{"above the root, encoded", "PUT", at(one) + "/file?path=%2e%2e%2fa", "x", "", own, 400, "component"},
		{"no path", "GET", at(one) + "/path", "", "", own, 400, "empty"},
		{"two paths", "GET", at(one) + "/path?path=a&path=b", "", "", own, 400, "2 times"},
		{"an unknown parameter", "GET", at(one) + "/path?path=a&user=root", "", "", own, 400, "unknown parameter"},
		{"a mode that is none", "PUT", at(one) + "/file?path=/c&mode=2541", "x", "", own, 400, "mode"},
		{"a user that is none", "PUT", at(one) + "/file?path=/c&uid=-1", "x", "", own, 400, "uid"},
		{"a directory that is missing", "PUT", at(one) + "/file?path=/no/c", "x", "", own, 404, "not found"},
		{"another path", "GET", at(one), "", "", own, 404, "unknown route"},
		{"another method", "POST", at(one) + "/file?path=/c", "x", "", own, 404, "unknown route"},

		{"a directory", "POST", at(one) + "/dir?path=/d", "", "", own, 201, `"name":"d","path":"/d","type":"directory","size":0,"mode":493`},
		{"the directory again", "POST", at(one) + "/dir?path=/d", "", "", own, 409, "exists"},
		{"directories that are missing", "POST", at(one) + "/dir?path=/d/e/f", "", "", own, 404, "not found"},
		{"directories that are made", "POST", at(one) + "/dir?path=/d/e/f&force=true&mode=448", "", "", own, 201, `"mode":448`},
		{"a directory below a file", "POST", at(one) + "/dir?path=/a.txt/x&force=true", "", "", own, 400, "directory"},
		{"a directory in the place of a file", "POST", at(one) + "/dir?path=/a.txt", "", "", own, 409, "exists"},
		{"a file in the place of a directory", "PUT", at(one) + "/file?path=/d&force=true", "x", "", own, 400, "is a directory"},
		{"a list", "GET", at(one) + "/dir?path=/", "", "", own, 200, `"path":"/d"`},
		{"a list of all", "GET", at(one) + "/dir?path=/&depth=3", "", "", own, 200, `"path":"/d/e/f"`},
		{"a list without depth", "GET", at(one) + "/dir?path=/&depth=0", "", "", own, 400, "depth"},
		{"a list of a file", "GET", at(one) + "/dir?path=/a.txt", "", "", own, 400, "directory"},
		{"an owner", "PATCH", at(one) + "/path?path=/d", `{"uid":5,"mode":493}`, "", own, 200, `"mode":493,"uid":5,"gid":1000`},
		{"a mode with setuid", "PATCH", at(one) + "/path?path=/d", `{"mode":2541}`, "", own, 400, "mode"},
		{"an unknown option of an owner", "PATCH", at(one) + "/path?path=/d", `{"size":5}`, "", own, 400, "size"},
		{"the removal of the root", "DELETE", at(one) + "/path?path=/", "", "", own, 400, "root"},
		{"the removal of a directory", "DELETE", at(one) + "/path?path=/d", "", "", own, 204, ""},
		{"the removal again", "DELETE", at(one) + "/path?path=/d", "", "", own, 404, "not found"},
		{"a path that is too deep", "PUT", at(one) + "/file?path=" + strings.Repeat("a/", 40), "x", "", own, 400, "maximum"},
		{"an empty file", "PUT", at(one) + "/file?path=/empty", "", "", own, 201, `"size":0`},

		{"the removal", "DELETE", "/volumes/" + one.VolumeID, "", keyA, "", 204, ""},
		{"the removal again", "DELETE", "/volumes/" + one.VolumeID, "", keyA, "", 404, "unknown volume"},
		{"its files, with its token", "GET", at(one) + "/file?path=/a.txt", "", "", own, 404, "unknown volume"},
		{"a new one of that name", "POST", "/volumes", `{"name":"one"}`, keyA, "", 201, `"token"`},
		{"the other account's, still", "GET", at(others) + "/dir?path=/", "", "", "Bearer " + others.Token, 200, "[]"},
	} {
		r := w.ask(t, c.method, c.path, c.body, "X-API-KEY", c.key, "Authorization", c.auth)
		if r.status != c.status || !strings.Contains(strings.ReplaceAll(r.body, "\n", ""), c.want) {
			t.Errorf("%s: %d %s", c.name, r.status, r.body)
		}
	}
}

// TestVolumeFull: a file that is too large is a 507 before its content is read.
func TestVolumeFull(t *testing.T) {
	w := newWorld(t, withVolumes(t))
	v := w.volume(t, "one", keyA)
	for size, want := range map[int64]int{volume.MaxFile + 1: http.StatusInsufficientStorage, 4: http.StatusCreated} {
		req, err := http.NewRequestWithContext(t.Context(), "PUT", w.srv.URL+"/volumecontent/"+v.VolumeID+"/file?path=/a", io.LimitReader(endless{}, size))
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = size
		req.Header.Set("Authorization", "Bearer "+v.Token)
		req.Header.Set("Expect", "100-continue")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes: %s, want %d", size, resp.Status, want)
		}
	}
}

type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }
