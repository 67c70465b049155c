package delivery

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/secret"
	"hortus.dev/test/forgeserver"
	"hortus.dev/test/gittest"
	"hortus.dev/test/secrettest"
)

// appKeys are the keys of two apps: their making takes long.
var appKeys = sync.OnceValue(func() (keys [2]*rsa.PrivateKey) {
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[i] = key
	}
	return keys
})

// line is a key as the secret has it: PEM in one line.
func line(key *rsa.PrivateKey) string {
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return strings.Join(strings.Split(strings.TrimSpace(string(block)), "\n"), " ")
}

const (
	theApp  = 1234
	theHome = 55
)

// allOf are the permissions of an installation that lacks nothing, and has more than is needed.
func allOf() map[string]string {
	return map[string]string{
		"metadata": "read", "contents": "write", "pull_requests": "write", "issues": "write", "checks": "write", "statuses": "read", "actions": "read",
		"administration": "write", "secrets": "write", "workflows": "write",
	}
}

// appWorld is a connectedWorld at GitHub, whose account ada uses an app.
type appWorld struct {
	*connectedWorld
	now time.Time
	req api.CheckRepository
}

func withApp(t *testing.T) *appWorld {
	t.Helper()
	dir := gittest.RealPath(t, t.TempDir())
	bare := filepath.Join(dir, "o", "r.git")
	gittest.Git(t, dir, "clone", "-q", "--bare", gittest.NewCheckout(t, nil), bare)
	w := &appWorld{connectedWorld: &connectedWorld{tokens: map[string]string{"ada": "key"}}, now: time.Now()}
	var err error
	w.forge, err = forgeserver.New(forgeserver.Config{
		Kind: forgeserver.GitHub, Now: func() time.Time { return w.now },
		Repositories: []*forgeserver.Repository{{Path: "o/r", Dir: bare}, {Path: "o/other", Dir: bare}, {Path: "o/outside", Dir: bare}},
		Apps: []*forgeserver.App{
			{ID: theApp, Slug: "garden", Key: &appKeys()[0].PublicKey, Installations: []*forgeserver.Installation{
				{ID: theHome, Account: "o", Repositories: []string{"o/r", "o/other"}, Permissions: allOf()},
			}},
			{ID: 99, Slug: "elsewhere", Key: &appKeys()[1].PublicKey},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w.forge)
	t.Cleanup(server.Close)
	w.url = server.URL + "/o/r.git"
	w.req = api.CheckRepository{URL: w.url, Secret: "key", App: &api.GitHubApp{ID: theApp}}
	w.secrets, _ = secrettest.Open(t, t.TempDir(), secret.Config{})
	w.Deliverer, err = New(Config{
		Getenv: func(string) string { return "" }, Transport: http.DefaultTransport, KeyOf: w.secrets.KeyOf, Now: func() time.Time { return w.now },
		Connected: func(_ context.Context, account, remote string) (api.Repository, error) {
			if remote != w.url || w.tokens[account] == "" {
				return api.Repository{}, nil
			}
			return api.Repository{Account: account, Forge: forgeserver.GitHub, Secret: w.tokens[account], App: w.req.App}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.set(t, "ada", "key", line(appKeys()[0]))
	return w
}

// TestAppRights: each right that an installation lacks is named with its permission and the page that grants it. The control lacks nothing.
func TestAppRights(t *testing.T) {
	w := withApp(t)
	for name, c := range map[string]struct {
		change func(map[string]string)
		lacks  map[string]string
	}{
		"everything":       {func(map[string]string) {}, nil},
		"a push":           {func(p map[string]string) { p["contents"] = "read" }, map[string]string{api.RightPush: "Contents: write"}},
		"merge requests":   {func(p map[string]string) { delete(p, "pull_requests") }, map[string]string{api.RightMergeRequest: "Pull requests: write"}},
		"issues":           {func(p map[string]string) { p["issues"] = "read" }, map[string]string{api.RightIssues: "Issues: write"}},
		"what checks said": {func(p map[string]string) { delete(p, "checks"); delete(p, "actions") }, map[string]string{api.RightChecks: "Checks: read, Actions: read"}},
		"all of it":        {func(p map[string]string) { clear(p); p["metadata"] = "read" }, map[string]string{api.RightRead: "Contents: read and write"}},
	} {
		w.forge.Reinstall(theHome, func(in *forgeserver.Installation) { in.Permissions = allOf(); c.change(in.Permissions) })
		can, err := w.Rights(t.Context(), "ada", w.req)
		if err != nil || can.Forge != "github" {
			t.Fatalf("%s: %+v, %v", name, can, err)
		}
		lacks := map[string]string{}
		for _, r := range can.Rights {
			if r.OK {
				continue
			}
			_, lacks[r.Right], _ = strings.Cut(r.Reason, "lacks ")
			if !strings.Contains(r.Fix, "/organizations/o/settings/installations/55") || !strings.Contains(r.Fix, lacks[r.Right]) {
				t.Errorf("%s: %s is fixed by %q", name, r.Right, r.Fix)
			}
		}
		if !maps.Equal(lacks, c.lacks) {
			t.Errorf("%s: lacks %v, want %v: %+v", name, lacks, c.lacks, can.Rights)
		}
		if n := 5; c.lacks[api.RightRead] == "" && len(can.Rights) != n {
			t.Errorf("%s: %d rights, want %d", name, len(can.Rights), n)
		}
	}
	if n := len(w.forge.Pulls()); n != 0 {
		t.Errorf("the tests opened %d merge requests", n)
	}
}

// TestAppRefused: each thing that can be wrong with an app is named, with what to do. No error has the key or a token.
func TestAppRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(*appWorld)
		reason, fix string
	}{
		"the control":        {func(*appWorld) {}, "", ""},
		"its installation":   {func(w *appWorld) { w.req.App.Installation = theHome }, "", ""},
		"key of another app": {func(w *appWorld) { w.set(t, "ada", "key", line(appKeys()[1])) }, "the private key is not one of GitHub App 1234", "settings of the same app"},
		"ID of another app":  {func(w *appWorld) { w.req.App.ID = 99 }, "the private key is not one of GitHub App 99", "settings of the same app"},
		"unknown app":        {func(w *appWorld) { w.req.App.ID = 98 }, "no GitHub App with the ID 98", "App ID is a number"},
		"not installed": {func(w *appWorld) {
			w.req.URL = strings.Replace(w.url, "/o/r.git", "/o/outside.git", 1)
		}, "GitHub App 1234 is not installed for o/outside", "/github-apps/garden/installations/new"},
		"other installation": {func(w *appWorld) { w.req.App.Installation = 7 }, "GitHub App 1234 has no installation 7", "Leave the installation out"},
		"not in the given installation": {func(w *appWorld) {
			w.req.URL, w.req.App.Installation = strings.Replace(w.url, "/o/r.git", "/o/outside.git", 1), theHome
		}, "may not use o/outside", "Add the repository to the installation"},
		"suspended": {func(w *appWorld) {
			w.forge.Reinstall(theHome, func(in *forgeserver.Installation) { in.Suspended = true })
		}, "the installation of GitHub App 1234 at o is suspended", "Unsuspend it: http"},
		"no key":    {func(w *appWorld) { w.set(t, "ada", "key", "ghp_"+strings.Repeat("x", 36)) }, "no private key of a GitHub App", "generate a private key"},
		"clock ago": {func(w *appWorld) { w.now = w.now.Add(-15 * time.Minute) }, "behind that of the forge", "timedatectl"},
		"clock off": {func(w *appWorld) { w.now = w.now.Add(15 * time.Minute) }, "ahead of that of the forge", "timedatectl"},
	} {
		t.Run(name, func(t *testing.T) {
			w := withApp(t)
			real := time.Now()
			c.change(w)
			if strings.HasPrefix(name, "clock") {
				w.connectedWorld.forge.SetNow(func() time.Time { return real })
			}
			can, err := w.Rights(t.Context(), "ada", w.req)
			if err != nil {
				t.Fatal(err)
			}
			r := can.Rights[0]
			if r.OK != (c.reason == "") || !strings.Contains(r.Reason, c.reason) || !strings.Contains(r.Fix, c.fix) {
				t.Errorf("%+v", r)
			}
			for _, secret := range append(w.forge.Issued(), "PRIVATE KEY", line(appKeys()[0])[40:90], "eyJ") {
				if strings.Contains(r.Reason+r.Fix, secret) {
					t.Errorf("%q is in %+v", secret, r)
				}
			}
		})
	}
	w := withApp(t)
	gitea := connect(t, forgeserver.Gitea)
	gitea.set(t, "ada", "key", line(appKeys()[0]))
	if _, err := gitea.Rights(t.Context(), "ada", api.CheckRepository{URL: gitea.url, Secret: "key", App: w.req.App}); api.KindOf(err) != api.KindInvalid {
		t.Errorf("an app at Gitea: %v", err)
	}
	if n := len(gitea.forge.Calls()); slices.ContainsFunc(gitea.forge.Calls(), func(c forgeserver.Call) bool { return c.Token != "" }) {
		t.Errorf("a signature was sent to Gitea, in one of %d calls", n)
	}
}

// TestAppToken: a token of an installation is for one repository and for what is needed, is used until five minutes before its end, and never for
// another account, another address, or after its key was replaced or removed. The control is the first use.
func TestAppToken(t *testing.T) {
	w := withApp(t)
	token := func() string {
		t.Helper()
		src, err := w.SourceOf(t.Context(), "ada", w.url)
		if err != nil || src.Auth == nil || src.Auth.Username != "x-access-token" {
			t.Fatalf("%+v, %v", src.Auth, err)
		}
		return src.Auth.Token
	}
	first := token()
	if issued := w.forge.Issued(); !slices.Equal(issued, []string{first}) {
		t.Fatalf("issued %q", issued)
	}
	// What the token may do is what the server was asked for.
	get := func(path, token string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(w.url, "/o/r.git")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for path, want := range map[string]int{"/api/v3/repos/o/r": 200, "/api/v3/repos/o/other": 404, "/api/v3/app": 401} {
		if code := get(path, first); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	if got, want := w.forge.IssuedPermissions(0), map[string]string{
		"metadata": "read", "contents": "write", "pull_requests": "write", "issues": "write", "checks": "read", "statuses": "read", "actions": "read",
	}; !maps.Equal(got, want) {
		t.Errorf("the token may %v, want %v", got, want)
	}
	w.now = w.now.Add(54 * time.Minute)
	if token() != first {
		t.Error("a token is not used for 54 minutes")
	}
	w.now = w.now.Add(time.Minute + time.Second)
	second := token()
	if second == first {
		t.Error("a token is used in its last five minutes")
	}
	for _, c := range []struct{ account, remote string }{
		{"bob", w.url}, {"", w.url},
		{"ada", strings.Replace(w.url, "/o/r", "/o/other", 1)},
		{"ada", strings.Replace(w.url, "127.0.0.1", "localhost", 1)},
	} {
		if src, err := w.SourceOf(t.Context(), c.account, c.remote); err != nil || src.Auth != nil {
			t.Errorf("%q at %s: %+v, %v", c.account, c.remote, src.Auth, err)
		}
	}
	// A test asks for a new token, which has the rights that the installation has now.
	if _, err := w.Rights(t.Context(), "ada", w.req); err != nil || token() == second {
		t.Errorf("the token after a test is that before it (%v)", err)
	}
	w.set(t, "ada", "key", line(appKeys()[1]))
	if _, err := w.SourceOf(t.Context(), "ada", w.url); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("after the key was replaced: %v", err)
	}
	if _, err := w.secrets.Remove(t.Context(), "ada", "key"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.SourceOf(t.Context(), "ada", w.url); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("after the key was removed: %v", err)
	}
}

// TestAppOfALiar: a forge that hands out a token for more than was asked for is not used. The control is the same answer without more.
func TestAppOfALiar(t *testing.T) {
	for more, want := range map[string]bool{
		`"permissions":{"contents":"write","metadata":"read"},"repositories":[{"full_name":"O/R"}]`:         true,
		`"permissions":{"contents":"write","administration":"write"},"repositories":[{"full_name":"o/r"}]`:  false,
		`"permissions":{"contents":"admin"},"repositories":[{"full_name":"o/r"}]`:                           false,
		`"permissions":{"contents":"write"},"repositories":[{"full_name":"o/r"},{"full_name":"o/private"}]`: false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodGet {
				_, _ = rw.Write([]byte(`{"id":1,"permissions":{"contents":"write","administration":"write"},"account":{"login":"o"},"html_url":"javascript:alert(1)"}`))
				return
			}
			rw.WriteHeader(http.StatusCreated)
			_, _ = rw.Write([]byte(`{"token":"ghs_of-a-liar","expires_at":"2999-01-01T00:00:00Z",` + more + `}`))
		}))
		w := withApp(t)
		w.url = server.URL + "/o/r"
		src, err := w.SourceOf(t.Context(), "ada", w.url)
		if (err == nil && src.Auth != nil) != want || err != nil && strings.Contains(err.Error(), "ghs_") {
			t.Errorf("%s: %+v, %v", more, src.Auth, err)
		}
		for _, g := range w.apps.grants {
			if g.Ends.After(w.now.Add(time.Hour)) || g.Page != "" {
				t.Errorf("the token ends at %v, and its page is %q", g.Ends, g.Page)
			}
		}
		server.Close()
	}
}
