package daemon

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hortus.dev/api"
)

// TestRepositoryOutlivesADaemon kills a daemon with SIGKILL during a clone. The next one says so,
// fetches it, and keeps it until it is removed.
func TestRepositoryOutlivesADaemon(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	root := t.TempDir()
	gitIn := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		cmd.Dir, cmd.Env = root, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	backend := filepath.Join(gitIn("--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git http-backend is not there: ", err)
	}
	gitIn("init", "-q", "-b", "main", "work")
	gitIn("-C", "work", "commit", "-q", "--allow-empty", "-m", "first")
	gitIn("clone", "-q", "--bare", "work", "web.git")
	head := gitIn("-C", "work", "rev-parse", "HEAD")

	begun, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	git := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "PATH=" + os.Getenv("PATH")}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.Do(func() {
			close(begun)
			<-release
		})
		git.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	url := srv.URL + "/web.git"

	dir := t.TempDir()
	c := connect(t, dir)
	info, err := c.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	added := make(chan error, 1)
	go func() {
		_, err := c.Repositories.Add(ctx, api.AddRepository{URL: url}, nil)
		added <- err
	}()
	<-begun
	if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-added; api.KindOf(err) != api.KindUnavailable {
		t.Errorf("the client of a killed daemon: %v", err)
	}
	close(release)

	c = connect(t, dir)
	row, err := c.Repositories.Get(ctx, "web")
	if err != nil || row.State != api.RepositoryFailed || row.Error == nil || !strings.Contains(row.Error.Message, "ended during the fetch") || row.Error.Hint != "hortus repo sync web" {
		t.Fatalf("%+v, %v", row, err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			row, err := c.Repositories.Sync(ctx, "web", nil)
			if err != nil || row.Commit != head {
				t.Errorf("%+v, %v", row, err)
			}
		})
	}
	wg.Wait()
	if row, err = c.Repositories.Get(ctx, "web"); err != nil || row.State != api.RepositoryReady || row.Commit != head || row.Error != nil {
		t.Errorf("%+v, %v", row, err)
	}
	copies := func() int {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(dir, "repositories", "*.git"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "repositories", "*.new")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	collectAll(t, c)
	if n := copies(); n != 1 {
		t.Errorf("%d copies after a collection", n)
	}
	if row, err = c.Repositories.Remove(ctx, "web"); err != nil || row.State != api.RepositoryRemoved {
		t.Errorf("%+v, %v", row, err)
	}
	if n := copies(); n != 1 {
		t.Errorf("%d copies after the removal", n)
	}
	if _, err := c.Repositories.Get(ctx, "web"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("after the removal: %v", err)
	}
	collectAll(t, c)
	if n := copies(); n != 0 {
		t.Errorf("%d copies after a collection", n)
	}
}
