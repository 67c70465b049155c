package daemon

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/blake2b"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/daemon/network"
	"hortus.dev/test/world"
)

// registry serves one package to each of npm, pip and go over TLS, and one for apt in clear.
type registry struct {
	*site
	clear api.EgressRule
	deb   string // URL of the package for apt

	mu       sync.Mutex
	files    map[string][]byte // what it serves, by path
	requests map[string]int    // by path
}

// The paths of the artifacts.
const (
	tarballPath = "/npm/hello/-/hello-1.0.0.tgz"
	modulePath  = "/go/example.com/hello/@v/v1.0.0.zip"
	debPath     = "/debian/pool/main/h/hello/hello_1.0_all.deb"
)

// ServeHTTP implements http.Handler. It answers a request with credentials, or with a header that
// it may be controlled by, with something else.
func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.requests[r.URL.Path]++
	body, ok := g.files[r.URL.Path]
	g.mu.Unlock()
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Header.Get("Authorization") != "" || r.Header.Get("X-Original-Url") != "":
		body = []byte("poison")
	case strings.HasSuffix(r.URL.Path, "/hello/"):
		w.Header().Set("Content-Type", "text/html")
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// fetched returns how often a path was requested since the last call.
func (g *registry) fetched(path string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.requests[path]
	delete(g.requests, path)
	return n
}

// zipOf makes a ZIP file of names and contents.
func zipOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		world.Must(world.Must(z.Create(name))(t).Write([]byte(files[name])))(t)
	}
	world.OK(t, z.Close())
	return b.Bytes()
}

// tarball makes a package for npm.
func tarball(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	const text = `{"name": "hello", "version": "1.0.0"}`
	world.OK(t, w.WriteHeader(&tar.Header{Name: "package/package.json", Mode: 0o644, Size: int64(len(text))}))
	world.Must(w.Write([]byte(text)))(t)
	world.OK(t, errors.Join(w.Close(), z.Close()))
	return b.Bytes()
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	g := &registry{requests: map[string]int{}}
	out := world.NewOutside(t)
	out.Handle("/", g)
	g.site = newSite(t, out, network.Config{CacheBytes: 64 << 20})
	g.clear = world.Rule("example.com", out.Clear)
	g.deb = "http://example.com:" + out.Clear + debPath
	tgz := tarball(t)
	integrity := sha512.Sum512(tgz)
	meta := world.Must(json.Marshal(map[string]any{
		"name": "hello", "dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{"name": "hello", "version": "1.0.0", "dist": map[string]string{
			"tarball": g.url(tarballPath), "integrity": "sha512-" + base64.StdEncoding.EncodeToString(integrity[:]),
		}}},
	}))(t)
	wheel := zipOf(t, map[string]string{
		"hello.py":                     "text = 'hello'\n",
		"hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
		"hello-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"hello-1.0.dist-info/RECORD":   "hello.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\nhello-1.0.dist-info/RECORD,,\n",
	})
	const mod = "module example.com/hello\n"
	g.files = map[string][]byte{
		"/npm/hello": meta, tarballPath: tgz,
		wheelPath(wheel):                       wheel,
		"/simple/hello/":                       fmt.Appendf(nil, "<a href=%q>hello-1.0-py3-none-any.whl</a>", g.url(wheelPath(wheel))+"#sha256="+sumOf(wheel)),
		"/go/example.com/hello/@v/v1.0.0.info": []byte(`{"Version": "v1.0.0"}`), "/go/example.com/hello/@v/v1.0.0.mod": []byte(mod),
		modulePath: zipOf(t, map[string]string{"example.com/hello@v1.0.0/go.mod": mod, "example.com/hello@v1.0.0/hello.go": "package hello\n"}),
		debPath:    []byte("a package for apt"),
	}
	return g
}

func (g *registry) url(path string) string { return "https://example.com:" + g.out.Port + path }

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func wheelPath(wheel []byte) string {
	sum := blake2b.Sum256(wheel)
	h := hex.EncodeToString(sum[:])
	return "/packages/" + h[:2] + "/" + h[2:4] + "/" + h[4:] + "/hello-1.0-py3-none-any.whl"
}

// wheel returns the path of the package for pip.
func (g *registry) wheel() string {
	for path := range g.files {
		if strings.HasPrefix(path, "/packages/") {
			return path
		}
	}
	return ""
}

// fetch requests a URL in a sandbox, with headers and under rules, and returns what the program
// printed.
func fetch(t *testing.T, s *client.Sandbox, rules []api.EgressRule, url string, headers ...string) string {
	t.Helper()
	world.Must(s.SetEgress(t.Context(), api.EgressPolicy{Rules: rules}))(t)
	set := ""
	for i := 0; i < len(headers); i += 2 {
		set += fmt.Sprintf("r.add_header(%q, %q); ", headers[i], headers[i+1])
	}
	out, err := world.Sh(t, s, fmt.Sprintf("python3 -c 'import urllib.request as u; r = u.Request(%q); %sprint(u.urlopen(r).read())' 2>&1 | tail -1", url, set))
	if err != nil {
		t.Errorf("%s: %v, %s", url, err, out)
	}
	return out
}

// TestPackageCache installs packages with real package managers in sandboxes of two accounts.
func TestPackageCache(t *testing.T) {
	t.Parallel()
	g := newRegistry(t)
	alice, bob := g.As(g.Key("alice", "")), g.As(g.Key("bob", ""))
	for _, p := range []struct{ needs, path, script string }{
		{"npm", tarballPath, "mkdir -p /tmp/p && cd /tmp/p && npm install --cache /tmp/npm --no-audit --no-fund --no-update-notifier --registry " + g.url("/npm/") + " hello && cat node_modules/hello/package.json"},
		{"pip", g.wheel(), "python3 -m pip install --no-cache-dir --disable-pip-version-check --no-deps --target /tmp/t --index-url " + g.url("/simple/") + " hello && cat /tmp/t/hello.py"},
		{"go", modulePath, "mkdir -p /tmp/m && cd /tmp/m && export HOME=/tmp/h GOFLAGS=-modcacherw GOENV=off GOTOOLCHAIN=local GOSUMDB=off GOPROXY=" + g.url("/go") + " && go mod init m && go mod download -json example.com/hello@v1.0.0 && echo hello"},
		{"python3", debPath, "python3 -c 'import urllib.request as u; print(u.urlopen(\"" + g.deb + "\").read())' && echo hello"},
	} {
		t.Run(p.needs, func(t *testing.T) {
			install := func(c *client.Client) *client.Sandbox {
				t.Helper()
				s := newSandbox(t, c, &api.EgressPolicy{Rules: []api.EgressRule{g.rule, g.clear}})
				if out, err := world.Sh(t, s, "command -v "+p.needs); err != nil {
					t.Skipf("the sandbox has no %s %s", p.needs, out)
				}
				if out, err := world.Sh(t, s, p.script); err != nil || !strings.Contains(out, "hello") {
					t.Fatalf("%v\n%s", err, out)
				}
				return s
			}
			install(alice)
			if n := g.fetched(p.path); n != 1 {
				t.Errorf("the first install fetched it %d times", n)
			}
			s := install(alice)
			if n := g.fetched(p.path); n != 0 {
				t.Errorf("the second install fetched it %d times", n)
			}
			world.Eventually(t, "the hit is recorded", func() bool { // which is after its answer
				for d, err := range alice.Egress.All(t.Context(), api.EgressFilter{Sandbox: s.ID()}) {
					if err != nil {
						t.Fatal(err)
					}
					if d.Path == p.path && d.Cached {
						return d.Rule != "" && d.Result == api.EgressAllowed && d.Status == 200 && d.Address == ""
					}
				}
				return false
			})
			install(bob)
			if n := g.fetched(p.path); n != 1 {
				t.Errorf("another account fetched it %d times", n)
			}
		})
	}
	metrics := world.Text(t, world.Over(t, t.Context(), string(g.Dir), "GET", "/metrics", ""))
	for _, name := range []string{`requests_total{result="hit"}`, `requests_total{result="miss"}`, "served_bytes_total", "bytes"} {
		if !regexp.MustCompile(`(?m)^hortus_package_cache_` + regexp.QuoteMeta(name) + ` [1-9]`).MatchString(metrics) {
			t.Errorf("no metric %s:\n%s", name, metrics)
		}
	}
}

// TestPackageCacheRefuses tries to get from the cache what a sandbox may not get, and to have it
// keep what others should not get.
func TestPackageCacheRefuses(t *testing.T) {
	t.Parallel()
	g := newRegistry(t)
	s := newSandbox(t, g.Client, nil)
	allow := []api.EgressRule{g.rule, g.clear}
	url := g.url(modulePath)
	want := func(what string, got string, good bool, fetches int) {
		t.Helper()
		if is := strings.Contains(got, "hello.go"); is != good {
			t.Errorf("%s: the program printed %.300q", what, got)
		}
		if n := g.fetched(modulePath); n != fetches {
			t.Errorf("%s: the server got %d requests, want %d", what, n, fetches)
		}
	}
	want("with credentials", fetch(t, s, allow, url, "Authorization", "Bearer x"), false, 1)
	want("with a header that changes the answer", fetch(t, s, allow, url, "X-Original-Url", "/x"), false, 1)
	want("neither was kept", fetch(t, s, allow, url), true, 1)
	want("control: it is kept", fetch(t, s, allow, url), true, 0)
	want("credentials are for the server", fetch(t, s, allow, url, "Authorization", "Bearer x"), false, 1)
	want("no rule", fetch(t, s, nil, url), false, 0)
	denied := g.rule
	denied.Action, denied.Private, denied.Paths = api.EgressDeny, false, []string{"/go/**"}
	want("a denied path", fetch(t, s, []api.EgressRule{denied, g.rule}, url), false, 0)
	public := g.rule
	public.Private = false
	want("a private address", fetch(t, s, []api.EgressRule{public}, url), false, 0)
	address := api.EgressRule{Action: api.EgressDeny, Host: "127.0.0.0/8"}
	want("a denied address", fetch(t, s, []api.EgressRule{address, g.rule}, url), false, 0)
	address.Host = "192.0.2.0/24"
	want("control: another denied address", fetch(t, s, []api.EgressRule{address, g.rule}, url), true, 1)
	clear := strings.Replace(g.deb, debPath, modulePath, 1)
	want("another port and scheme", fetch(t, s, allow, clear), true, 1)
	objects, err := filepath.Glob(g.Dir.Path("packages/objects/*"))
	if err != nil || len(objects) != 1 {
		t.Fatalf("objects %v, %v", objects, err)
	}
	world.OK(t, os.WriteFile(objects[0], bytes.Repeat([]byte("x"), len(g.files[modulePath])), 0o600))
	want("a changed file", fetch(t, s, allow, url), true, 1)
	want("control: it is kept again", fetch(t, s, allow, url), true, 0)
	zero := int64(0)
	got, err := g.Client.Collect(t.Context(), admin.CollectRequest{OlderThanMS: &zero})
	if err != nil || !slices.ContainsFunc(got.Items, func(it admin.CollectedItem) bool { return it.Part == admin.PartPackages && it.Bytes > 0 }) {
		t.Errorf("collected %+v, %v", got, err)
	}
	want("collected", fetch(t, s, allow, url), true, 1)
}
