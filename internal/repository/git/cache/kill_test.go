package cache

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
	"hortus.dev/test/patience"
)

// The test binary is also the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HORTUS_GIT_KILL_DIR"); dir != "" {
		c, err := Open(Config{Dir: dir, At: func(point string) {
			if point == os.Getenv("HORTUS_GIT_KILL_AT") {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}})
		if err == nil {
			_, err = c.Fetch(context.Background(), git.Source{URL: os.Getenv("HORTUS_GIT_KILL_URL")}, nil)
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestFetchKilled kills a process in the middle of a fetch, at each request that it
// makes, for a first fetch and for an update. Nothing half is ever found; git that
// still runs keeps others out; the next fetch succeeds.
func TestFetchKilled(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []bool{true, false} {
		fell := map[string]int{}
		for at := 1; at <= 20; at++ {
			src := gittest.NewCheckout(t, map[string]string{"a": "1"})
			s := newServer(t, true)
			url, dir := s.bare(t, src, "a.git")
			c := newCache(t)
			if !first {
				fetch(t, c, url)
				gittest.WriteFiles(t, src, map[string]string{"a": "2"})
				gittest.Git(t, src, "commit", "-qam", "second")
				gittest.Git(t, src, "push", "-q", dir, "main")
			}
			repo := c.repo(must(git.ParseRemote(url, false)))
			here, release := make(chan string, 1), make(chan struct{})
			var seen atomic.Int64
			s.before(func(w http.ResponseWriter, r *http.Request) bool {
				if seen.Add(1) == int64(at) {
					here <- r.Method + " " + filepath.Base(r.URL.Path)
					<-release
				}
				return false
			})
			cmd := exec.Command(exe)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HORTUS_GIT_KILL_DIR=" + c.cfg.Dir, "HORTUS_GIT_KILL_URL=" + url}
			var said strings.Builder
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case phase := <-here:
				fell[phase]++
			case err := <-ended:
				close(release)
				if err != nil {
					t.Fatalf("%v: %s", err, said.String())
				}
				if at < 4 {
					t.Errorf("a fetch asked %d times only", at-1)
				}
				t.Logf("first fetch: %v; kills fell at %v", first, fell)
				at = 100
				continue
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-ended
			if _, err := os.Stat(repo.dir); first == (err == nil) {
				t.Errorf("kill %d: the repository is there: %v", at, err == nil)
			}
			// git is held by the server still, and holds the lock.
			over, stop := context.WithCancel(context.Background())
			stop()
			if f, err := lockFile(over, repo.base+".lock"); !errors.Is(err, context.Canceled) {
				t.Errorf("kill %d: the lock is free while git runs (%v, %v)", at, f, err)
			}
			close(release)
			got := head(t, fetch(t, c, url))
			if got.Hash != gittest.Git(t, src, "rev-parse", "HEAD") {
				t.Errorf("kill %d: got %+v", at, got)
			}
			gittest.Git(t, repo.dir, "fsck", "--strict")
		}
	}
}

// TestFetchAfterKill: what a git that was killed leaves does not stop the next.
func TestFetchAfterKill(t *testing.T) {
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	c := newCache(t)
	r := fetch(t, c, src)
	left := map[string]string{"packed-refs.lock": "", "HEAD.lock": "", "shallow.lock": "", "refs/hortus/remote/heads/main.lock": "", "refs/hortus/remote-head.lock": "", "objects/pack/tmp_pack_x": "half", "config.lock": ""}
	gittest.WriteFiles(t, r.dir, left)
	gittest.WriteFiles(t, r.base+".new", map[string]string{"HEAD": "half"})
	gittest.WriteFiles(t, r.workDir(), map[string]string{"draft/x": "half"})
	gittest.WriteFiles(t, src, map[string]string{"a": "2"})
	gittest.Git(t, src, "commit", "-qam", "second")
	// Control: git itself stops.
	if out, err := gittest.TryGit(t, r.dir, "fetch", "-q", src, "+main:refs/hortus/remote/heads/main"); err == nil {
		t.Errorf("control: git did not mind: %s", out)
	}
	fetch(t, c, src)
	if got := head(t, r); got.Hash != gittest.Git(t, src, "rev-parse", "HEAD") {
		t.Errorf("got %+v", got)
	}
	for name := range left {
		if _, err := os.Stat(filepath.Join(r.dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	for _, dir := range []string{r.base + ".new", r.workDir()} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

// TestLockWaits: a second writer waits as long as its context lasts.
func TestLockWaits(t *testing.T) {
	src := gittest.NewCheckout(t, nil)
	c := newCache(t)
	r := fetch(t, c, src)
	lock, err := r.lock(gittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(gittest.Context(t))
	waits := make(chan error, 1)
	go func() {
		_, err := c.Fetch(ctx, git.Source{URL: src}, nil)
		waits <- err
	}()
	stop()
	gittest.WantKind(t, <-waits, "canceled", "")
	// Reading goes on meanwhile.
	head(t, r)
	go func() {
		_, err := c.Fetch(gittest.Context(t), git.Source{URL: src}, nil)
		waits <- err
	}()
	lock.Close()
	select {
	case err := <-waits:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience.Of(time.Minute)):
		t.Error("the lock was not taken")
	}
}
