package githttp

import (
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api/secrets"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
)

// stage is a server with git's own http-backend, and a proxy in front of it that checks requests.
type stage struct {
	t     *testing.T
	root  string // of the server's repositories
	proxy *httptest.Server
	real  *httptest.Server

	mu   sync.Mutex
	rule secrets.Git
	// passed are the requests that reached the server.
	passed []*http.Request
	// refused are those that the proxy refused, also while their body was sent.
	refused []*Refusal
}

// newStage serves /o/r.git with two commits on main and one on hortus/old, and an empty
// /o/other.git.
func newStage(t *testing.T, format string, rule secrets.Git) *stage {
	t.Helper()
	tier.AnyUser(t)
	backend := filepath.Join(strings.TrimSpace(gittest.Git(t, t.TempDir(), "--exec-path")), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skipf("git has no http-backend on this machine: %v", err)
	}
	s := &stage{t: t, root: gittest.RealPath(t, t.TempDir()), rule: rule}
	for _, name := range []string{"r", "other"} {
		dir := filepath.Join(s.root, "o", name+".git")
		gittest.Git(t, s.root, "init", "-q", "--bare", "-b", "main", "--object-format="+format, dir)
		for _, c := range []string{"http.receivepack", "uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
			gittest.Git(t, dir, "config", c, "true")
		}
	}
	work := gittest.RealPath(t, t.TempDir())
	gittest.Git(t, work, "init", "-q", "-b", "main", "--object-format="+format, "--template=")
	for _, text := range []string{"one\n", "two\n"} {
		gittest.WriteFiles(t, work, map[string]string{"a.txt": text})
		gittest.Git(t, work, "add", "-A")
		gittest.Git(t, work, "commit", "-q", "-m", text)
	}
	gittest.Git(t, work, "push", "-q", filepath.Join(s.root, "o/r.git"), "main", "main~1:refs/heads/hortus/old")

	h := &cgi.Handler{Path: backend, Dir: s.root, InheritEnv: []string{"PATH"}, Stderr: testWriter{t},
		Env: []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "REMOTE_USER=t"}}
	s.real = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.passed = append(s.passed, r)
		s.mu.Unlock()
		if r.Method == http.MethodPost {
			// Without a length, http-backend reads until the end. With one it never ends if
			// the body does before.
			r.TransferEncoding, r.ContentLength = nil, -1
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.real.Close)
	target, err := url.Parse(s.real.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Transport: sender{},
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			s.answer(w, err)
		},
	}
	s.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		rule := s.rule
		s.mu.Unlock()
		out, err := Check(rule, r)
		if err != nil {
			s.answer(w, err)
			return
		}
		forward.ServeHTTP(w, out)
	}))
	t.Cleanup(s.proxy.Close)
	return s
}

// sender sends what was checked.
type sender struct{}

func (sender) RoundTrip(r *http.Request) (*http.Response, error) {
	return Send(http.DefaultTransport, r)
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) { return len(p), nil }

func (s *stage) answer(w http.ResponseWriter, err error) {
	var refused *Refusal
	if !errors.As(err, &refused) {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	s.mu.Lock()
	s.refused = append(s.refused, refused)
	s.mu.Unlock()
	status, contentType, body := refused.Answer()
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// allow replaces the rule.
func (s *stage) allow(change func(*secrets.Git)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.rule)
}

// refusals returns what was refused since the last call.
func (s *stage) refusals() []*Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.refused
	s.refused = nil
	return r
}

func (s *stage) url() string { return s.proxy.URL + "/o/r.git" }

// ref returns a ref of the server's repository, or "".
func (s *stage) ref(name string) string {
	s.t.Helper()
	out, err := gittest.TryGit(s.t, filepath.Join(s.root, "o/r.git"), "rev-parse", "--verify", "-q", name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// refs returns all refs of the server's repositories.
func (s *stage) refs() string {
	s.t.Helper()
	return gittest.Git(s.t, filepath.Join(s.root, "o/r.git"), "for-each-ref") + gittest.Git(s.t, filepath.Join(s.root, "o/other.git"), "for-each-ref")
}

// clone clones through the proxy.
func (s *stage) clone(args ...string) string {
	s.t.Helper()
	dir := filepath.Join(gittest.RealPath(s.t, s.t.TempDir()), "c")
	gittest.Git(s.t, "/", append(append([]string{"clone", "-q"}, args...), s.url(), dir)...)
	return dir
}

// commit makes a commit in a checkout and returns its id.
func commitIn(t *testing.T, dir, text string, args ...string) string {
	t.Helper()
	gittest.WriteFiles(t, dir, map[string]string{"new.txt": text})
	gittest.Git(t, dir, "add", "-A")
	gittest.Git(t, dir, append([]string{"commit", "-q", "-m", text}, args...)...)
	return gittest.Git(t, dir, "rev-parse", "HEAD")
}

// output runs git with an input and returns what it writes.
func output(t *testing.T, dir, input string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return out
}

// sandboxRule is what the tests begin with.
func sandboxRule() secrets.Git {
	return secrets.Git{Repository: "/o/r", Fetch: true, Push: []string{"refs/heads/hortus/*"}}
}
