package fleet

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/network"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// balanced starts a fleet behind a balancer that gives each request to the next node.
func balanced(t *testing.T, n int) (nodes, string) {
	t.Helper()
	front := network.NewBalancer(t)
	b := newBase(t)
	b.url = front.URL
	all := b.open(t, n)
	for _, w := range all {
		front.Add(t, w.URL)
	}
	return all, front.URL
}

// archiveOf is a tar archive of one file.
func archiveOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	world.OK(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
	io.WriteString(w, text)
	world.OK(t, w.Close())
	return out.Bytes()
}

// asker returns what sends a request with a key to an address, and wants a status.
func asker(t *testing.T, at string, k api.CreatedKey) func(method, path, body string, want int) string {
	return func(method, path, body string, want int) string {
		t.Helper()
		status, text := call(t, method, at+path, body, "X-API-Key", k.Secret)
		if status != want {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		return text
	}
}

// TestBuildsBalanced builds templates with both APIs, with files, while each request goes to another node.
func TestBuildsBalanced(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	all, at := balanced(t, 3)
	k, other := all[0].Key("team", api.RoleUser), all[0].Key("other", api.RoleUser)
	as := asker(t, at, k)

	// E2B's builds: register, ask for the address of an upload, upload, start, ask for the state.
	files := archiveOf(t, "f", "copied")
	sum := fmt.Sprintf("%x", sha256.Sum256(files))
	made := as("POST", "/v3/templates", `{"name":"one"}`, 202)
	id := field(t, made, "buildID")
	link := as("GET", "/templates/one/files/"+sum, "", 201)
	if status, text := call(t, "PUT", field(t, link, "url"), string(files)); status != 200 {
		t.Fatalf("the upload: %d %s", status, text)
	}
	if again := as("GET", "/templates/one/files/"+sum, "", 201); !strings.Contains(again, `"present":true`) {
		t.Errorf("after the upload: %s", again)
	}
	as("POST", "/v2/templates/one/builds/"+id, `{"fromTemplate":"base","steps":[{"type":"COPY","args":["f","/home/user/f"],"filesHash":"`+sum+`"}]}`, 202)
	state := ""
	world.Eventually(t, "the build ends", func() bool {
		state = as("GET", "/templates/one/builds/"+id+"/status", "", 200)
		return !slices.Contains([]string{"waiting", "building"}, field(t, state, "status"))
	})
	if field(t, state, "status") != "ready" || field(t, state, "buildID") != id {
		t.Fatalf("the build: %s", state)
	}
	for range all { // nobody else's, whichever node is asked
		if status, _ := call(t, "GET", at+"/templates/one/builds/"+id+"/status", "", "X-API-Key", other.Secret); status != 404 {
			t.Errorf("another account's build: %d", status)
		}
	}

	// The HTTP API's.
	c := world.Must(client.Remote(at, k.Secret))(t)
	t.Cleanup(c.Close)
	for i := range 3 {
		uploaded := world.Must(c.Templates.Upload(ctx, bytes.NewReader(files)))(t)
		_, err := c.Templates.Build(ctx, api.BuildTemplate{Name: fmt.Sprint("two", i), Files: uploaded, Dockerfile: "FROM host\nCOPY f /home/user/f", Isolation: "container"}, nil)
		world.OK(t, err)
	}
	for _, name := range []string{"one", "two0", "two1", "two2"} {
		if out, err := world.Sh(t, world.Sandbox(t, c, api.CreateSandbox{Template: name}), "cat /home/user/f"); err != nil || out != "copied" {
			t.Errorf("template %s: %q, %v", name, out, err)
		}
	}

}

// TestVolumesBalanced uses volumes, and asks for the metrics of sandboxes of all nodes, while each request goes to another node.
func TestVolumesBalanced(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	all, at := balanced(t, 3)
	k, other := all[0].Key("team", api.RoleUser), all[0].Key("other", api.RoleUser)
	as := asker(t, at, k)
	c := world.Must(client.Remote(at, k.Secret))(t)
	t.Cleanup(c.Close)
	// Volumes have their own token for files.
	for i := range 3 {
		v := as("POST", "/volumes", fmt.Sprintf(`{"name":"v%d"}`, i), 201)
		content, bearer := at+"/volumecontent/"+field(t, v, "volumeID"), "Bearer "+field(t, v, "token")
		big := strings.Repeat("0123456789abcdef", 1<<16)
		for name, text := range map[string]string{"/a": "a", "/big": big} {
			if status, text := call(t, "PUT", content+"/file?path="+name, text, "Authorization", bearer); status != 201 {
				t.Errorf("write %s: %d %s", name, status, text)
			}
			if status, back := call(t, "GET", content+"/file?path="+name, "", "Authorization", bearer); status != 200 || back != text {
				t.Errorf("read %s: %d, %d bytes", name, status, len(back))
			}
		}
		if status, _ := call(t, "GET", content+"/file?path=/a", "", "Authorization", bearer+"x"); status != 401 {
			t.Errorf("with a wrong token: %d", status)
		}
		if status, _ := call(t, "DELETE", at+"/volumes/"+field(t, v, "volumeID"), "", "X-API-Key", other.Secret); status != 404 {
			t.Errorf("another account's volume: %d", status)
		}
	}
	for _, v := range world.Must(all[0].DB.VolumesOf(ctx, "team"))(t) {
		as("DELETE", "/volumes/"+string(v.ID), "", 204)
	}

	// Metrics: each node answers those of all.
	var ids []string
	on := map[*world.World]bool{}
	for len(on) < len(all) && len(ids) < 20 {
		s := world.Sandbox(t, c, api.CreateSandbox{Isolation: "container"})
		has, _ := all.of(t, s.ID())
		on[has] = true
		ids = append(ids, string(s.ID()))
	}
	world.Eventually(t, "all sandboxes have metrics", func() bool {
		text := as("GET", "/sandboxes/metrics?sandbox_ids="+strings.Join(ids, ","), "", 200)
		return !slices.ContainsFunc(ids, func(id string) bool { return !strings.Contains(text, id) })
	})
	if status, text := call(t, "GET", at+"/sandboxes/metrics?sandbox_ids="+strings.Join(ids, ","), "", "X-API-Key", other.Secret); status != 200 || strings.Contains(text, ids[0]) {
		t.Errorf("another account's metrics: %d %s", status, text)
	}

	// A volume of a node that has ended can be removed; its files cannot be read.
	v := as("POST", "/volumes", `{"name":"orphan"}`, 201)
	vid := field(t, v, "volumeID")
	row := world.Must(all[0].DB.Volume(ctx, api.VolumeID(vid)))(t)
	n := world.Must(all[0].DB.Node(ctx, row.Node))(t)
	dead := int(n.Name[0] - 'a')
	left := all[(dead+1)%3]
	all[dead].Stop()
	if status, text := call(t, "GET", left.URL+"/volumecontent/"+vid+"/dir?path=/", "", "Authorization", "Bearer "+field(t, v, "token")); status != http.StatusServiceUnavailable && status != http.StatusBadGateway {
		t.Errorf("files of a node that has ended: %d %s", status, text)
	}
	if status, text := call(t, "DELETE", left.URL+"/volumes/"+vid, "", "X-API-Key", k.Secret); status != 204 {
		t.Errorf("the end of its volume: %d %s", status, text)
	}
}

// TestSignInBalanced: the requests of a client's sign-in go to different nodes, and its code works once at all of them together.
func TestSignInBalanced(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	all, at := balanced(t, 2)
	k := all[0].Key("team", api.RoleUser)
	form := []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", at}
	const back, verifier = "http://localhost:1/callback", "0123456789012345678901234567890123456789012"
	for round := range 3 {
		_, text := call(t, "POST", at+"/oauth/register", `{"redirect_uris":["`+back+`"]}`, "Content-Type", "application/json")
		id := field(t, text, "client_id")
		sum := sha256.Sum256([]byte(verifier))
		q := url.Values{"response_type": {"code"}, "client_id": {id}, "redirect_uri": {back}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
		_, page := call(t, "GET", at+"/oauth/authorize?"+q.Encode(), "")
		sealed := regexp.MustCompile(`name="request" value="([^"]+)"`).FindStringSubmatch(page)
		if sealed == nil {
			t.Fatalf("the page of consent: %s", page)
		}
		r := world.Must(http.NewRequestWithContext(t.Context(), "POST", at+"/oauth/authorize", strings.NewReader(url.Values{"request": {sealed[1]}, "key": {k.Secret}, "decision": {"allow"}}.Encode())))(t)
		r.Header.Set(form[0], form[1])
		r.Header.Set(form[2], form[3])
		resp := world.Must(http.DefaultTransport.RoundTrip(r))(t)
		resp.Body.Close()
		to, err := resp.Location()
		if err != nil {
			t.Fatalf("round %d: the consent is %s", round, resp.Status)
		}
		exchange := url.Values{"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "client_id": {id}, "redirect_uri": {back}, "code_verifier": {verifier}}.Encode()
		status, text := call(t, "POST", at+"/oauth/token", exchange, form...)
		if status != 200 {
			t.Fatalf("round %d: the token: %d %s", round, status, text)
		}
		token := field(t, text, "access_token")
		for range all {
			if status, text := call(t, "POST", at+"/oauth/token", exchange, form...); status != 400 {
				t.Errorf("the code again: %d %s", status, text)
			}
			if status, text := call(t, "POST", at+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Authorization", "Bearer "+token, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2025-06-18"); status != 200 {
				t.Errorf("the tools: %d %s", status, text)
			}
		}
	}
}
