package gittest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/patience"
)

// sh runs git as a person would, with nothing of this machine's configuration.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := TryGit(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func TryGit(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(t.TempDir()), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@t", "GIT_ALLOW_PROTOCOL=file:ext:http:https",
		"GIT_AUTHOR_DATE=@1700000000 +0000", "GIT_COMMITTER_DATE=@1700000000 +0000"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func WriteFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkout makes a repository with a work tree and one commit on main.
func NewCheckout(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := RealPath(t, t.TempDir())
	Git(t, dir, "init", "-q", "-b", "main", "--template=")
	WriteFiles(t, dir, files)
	Git(t, dir, "add", "-A")
	Git(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	return dir
}

func RealPath(t testing.TB, dir string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func Context(t testing.TB) context.Context {
	ctx, stop := context.WithTimeout(context.Background(), patience.Of(2*time.Minute))
	t.Cleanup(stop)
	return ctx
}

func WantKind(t testing.TB, err error, kind api.Kind, text string) {
	t.Helper()
	if api.KindOf(err) != kind || !strings.Contains(err.Error()+" "+api.HintOf(err), text) {
		t.Fatalf("got %q (%s, hint %q), want %s with %q", err, api.KindOf(err), api.HintOf(err), kind, text)
	}
}

// object writes one as it is given, however wrong.
func WriteObject(t *testing.T, dir, kind, content string) string {
	t.Helper()
	cmd := exec.Command("git", "hash-object", "-w", "-t", kind, "--literally", "--stdin")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(content)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TreeEntry(mode, name, hash string) string {
	raw := make([]byte, len(hash)/2)
	fmt.Sscanf(hash, "%x", &raw)
	return mode + " " + name + "\x00" + string(raw)
}

// Server serves bare repositories over HTTP, for fetches and pushes by everybody.
type Server struct {
	root    string
	backend *cgi.Handler
}

// NewServer clones repositories and serves each at its path. It skips the test if git cannot serve.
func NewServer(t testing.TB, from map[string]string) *Server {
	t.Helper()
	s := &Server{root: RealPath(t, t.TempDir())}
	backend := filepath.Join(Git(t, s.root, "--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skipf("git-http-backend is not installed: %v", err)
	}
	for path, work := range from {
		Git(t, s.root, "clone", "-q", "--bare", work, s.Dir(path))
		Git(t, s.Dir(path), "config", "http.receivepack", "true")
	}
	s.backend = &cgi.Handler{
		Path: backend, InheritEnv: []string{"PATH"},
		Env: []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "REMOTE_USER=t",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	return s
}

// Dir returns the directory of a repository.
func (s *Server) Dir(path string) string { return filepath.Join(s.root, path) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		r.TransferEncoding, r.ContentLength = nil, -1 // http-backend reads until the end
	}
	s.backend.ServeHTTP(w, r)
}
