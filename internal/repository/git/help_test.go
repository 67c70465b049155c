package git

import (
	"context"
	"io"
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
func sh(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := try(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func try(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(t.TempDir()), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
		"GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@t", "GIT_ALLOW_PROTOCOL=file:ext:http:https",
		"GIT_AUTHOR_DATE=@1700000000 +0000", "GIT_COMMITTER_DATE=@1700000000 +0000"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func put(t testing.TB, dir string, files map[string]string) {
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
func newCheckout(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := real(t, t.TempDir())
	sh(t, dir, "init", "-q", "-b", "main", "--template=")
	put(t, dir, files)
	sh(t, dir, "add", "-A")
	sh(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	return dir
}

func real(t testing.TB, dir string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func newCache(t testing.TB, with ...func(*Config)) *Cache {
	t.Helper()
	cfg := Config{Dir: filepath.Join(real(t, t.TempDir()), "cache")}
	for _, f := range with {
		f(&cfg)
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fetch(t testing.TB, c *Cache, url string) *Repo {
	t.Helper()
	r, err := c.Fetch(patient(t), Source{URL: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func head(t testing.TB, r *Repo) Commit {
	t.Helper()
	c, err := r.Resolve(patient(t), "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func patient(t testing.TB) context.Context {
	ctx, stop := context.WithTimeout(context.Background(), patience.Of(2*time.Minute))
	t.Cleanup(stop)
	return ctx
}

func wantKind(t testing.TB, err error, kind api.Kind, text string) {
	t.Helper()
	if api.KindOf(err) != kind || !strings.Contains(err.Error()+" "+api.HintOf(err), text) {
		t.Fatalf("got %q (%s, hint %q), want %s with %q", err, api.KindOf(err), api.HintOf(err), kind, text)
	}
}

func file(path, text string) Change {
	return Change{Path: path, Mode: Regular, Size: int64(len(text)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

func link(path, to string) Change {
	c := file(path, to)
	c.Mode = Symlink
	return c
}

func request(parent string, changes ...Change) CommitRequest {
	id := Identity{"An Agent", "agent@example.org"}
	return CommitRequest{Parent: parent, Changes: changes, Author: id, Committer: id, Message: "Change it", When: time.Unix(1700000001, 0)}
}
