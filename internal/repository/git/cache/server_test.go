package cache

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
)

const token = "s3cret/token+x"

// server serves bare repositories below a directory with git's own http-backend, to
// who gives the token.
type server struct {
	*httptest.Server
	root  string
	asked atomic.Int64
	first atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
}

func newServer(t *testing.T, open bool) *server {
	t.Helper()
	if _, err := os.Stat(filepath.Join(execPath(t), "git-http-backend")); err != nil {
		t.Skip("git http-backend is not there: ", err)
	}
	s := &server{root: gittest.RealPath(t, t.TempDir())}
	backend := &cgi.Handler{Path: filepath.Join(execPath(t), "git-http-backend"), Dir: s.root,
		Env: []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=" + s.root, "REMOTE_USER=somebody"}, Stderr: os.Stderr}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if f := s.first.Load(); f != nil && (*f)(w, r) {
			return
		}
		if user, pass, ok := r.BasicAuth(); !open && (!ok || user != "alice" || pass != token) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// before lets f look at each request first, and answer it where it gives true.
func (s *server) before(f func(w http.ResponseWriter, r *http.Request) bool) { s.first.Store(&f) }

func execPath(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// bare puts a bare clone of src on the server and gives its address.
func (s *server) bare(t *testing.T, src, name string) (url, dir string) {
	t.Helper()
	dir = filepath.Join(s.root, name)
	gittest.Git(t, s.root, "clone", "-q", "--bare", "--template=", src, dir)
	gittest.Git(t, dir, "config", "http.receivepack", "true")
	return s.URL + "/" + name, dir
}

func auth() *git.Auth { return &git.Auth{Username: "alice", Token: token} }
