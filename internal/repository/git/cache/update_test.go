package cache

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
)

// countFetches counts the requests of a server that ask for objects, and those that list
// refs. hold, if not nil, is called for each of the first.
func countFetches(s *server, hold func()) (fetches, lists *atomic.Int64) {
	fetches, lists = &atomic.Int64{}, &atomic.Int64{}
	s.before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		text := raw
		if z, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			text, _ = io.ReadAll(z)
		}
		switch {
		case bytes.Contains(text, []byte("command=fetch")):
			fetches.Add(1)
			if hold != nil {
				hold()
			}
		case bytes.Contains(text, []byte("command=ls-refs")):
			lists.Add(1)
		}
		return false
	})
	return fetches, lists
}

// TestOneFetchForAll has twenty callers want a repository at once: the server sends its
// objects once.
func TestOneFetchForAll(t *testing.T) {
	s := newServer(t, false)
	src := gittest.NewCheckout(t, map[string]string{"a": "1", "b": "2"})
	url, dir := s.bare(t, src, "a.git")
	c := newCache(t)
	const callers = 20
	all := func() (cold, unchanged, shared int, objects int64) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for range callers {
			wg.Go(func() {
				<-begin
				var told int
				r, did, err := c.Update(gittest.Context(t), git.Source{URL: url, Auth: auth()}, func(string) { told++ })
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := r.Resolve(gittest.Context(t), "main"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if did.Cold {
					cold++
				}
				if did.Unchanged {
					unchanged++
				}
				if did.Shared {
					shared++
				}
				if !did.Shared {
					objects += did.Objects
				}
				if !did.Unchanged && !did.Shared && told == 0 {
					t.Error("no progress was passed on")
				}
			})
		}
		close(begin)
		wg.Wait()
		return cold, unchanged, shared, objects
	}
	fetches, lists := countFetches(s, nil)
	cold, unchanged, shared, objects := all()
	if fetches.Load() != 1 || cold+unchanged != callers || cold == 0 || objects != 4 {
		t.Errorf("%d fetches for %d callers: %d cold, %d unchanged, %d shared, %d objects", fetches.Load(), callers, cold, unchanged, shared, objects)
	}
	t.Logf("first: %d requests for objects, %d for refs (git asks twice), %d of %d callers shared", fetches.Load(), lists.Load(), shared, callers)

	// A push of one file: one more request, for three objects.
	gittest.WriteFiles(t, src, map[string]string{"a": "3"})
	gittest.Git(t, src, "commit", "-qam", "second")
	gittest.Git(t, src, "push", "-q", dir, "main")
	fetches, _ = countFetches(s, nil)
	cold, _, _, objects = all()
	if fetches.Load() != 1 || cold != 0 || objects != 3 {
		t.Errorf("after a push: %d fetches, %d cold, %d objects", fetches.Load(), cold, objects)
	}
	// Nothing new: none.
	fetches, lists = countFetches(s, nil)
	if _, unchanged, _, _ = all(); fetches.Load() != 0 || unchanged != callers || lists.Load() == 0 {
		t.Errorf("without a push: %d fetches, %d of refs, %d unchanged", fetches.Load(), lists.Load(), unchanged)
	}
}

// TestPushDuringFetch pushes while a fetch runs that has listed the refs: a later caller
// gets what was pushed.
func TestPushDuringFetch(t *testing.T) {
	s := newServer(t, true)
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	url, dir := s.bare(t, src, "a.git")
	c := newCache(t)
	at, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	countFetches(s, func() {
		once.Do(func() {
			close(at)
			<-release
		})
	})
	first := make(chan error, 1)
	go func() {
		_, err := c.Fetch(gittest.Context(t), git.Source{URL: url}, nil)
		first <- err
	}()
	<-at
	gittest.WriteFiles(t, src, map[string]string{"a": "2"})
	gittest.Git(t, src, "commit", "-qam", "second")
	gittest.Git(t, src, "push", "-q", dir, "main")
	second := make(chan string, 1)
	go func() {
		r, err := c.Fetch(gittest.Context(t), git.Source{URL: url}, nil)
		if err != nil {
			second <- err.Error()
			return
		}
		h, err := r.Resolve(gittest.Context(t), "main")
		if err != nil {
			second <- err.Error()
			return
		}
		second <- h.Hash
	}()
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if got, want := <-second, gittest.Git(t, src, "rev-parse", "HEAD"); got != want {
		t.Errorf("the second caller got %s, want %s", got, want)
	}
}

// TestCredentialsAreNotShared joins a fetch only with the same credentials.
func TestCredentialsAreNotShared(t *testing.T) {
	s := newServer(t, false)
	url, _ := s.bare(t, gittest.NewCheckout(t, nil), "a.git")
	c := newCache(t)
	at, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.before(func(w http.ResponseWriter, r *http.Request) bool {
		if _, pass, _ := r.BasicAuth(); pass == token {
			once.Do(func() {
				close(at)
				<-release
			})
		}
		return false
	})
	first := make(chan error, 1)
	go func() {
		_, err := c.Fetch(gittest.Context(t), git.Source{URL: url, Auth: auth()}, nil)
		first <- err
	}()
	<-at
	second := make(chan error, 1)
	go func() {
		_, err := c.Fetch(gittest.Context(t), git.Source{URL: url}, nil)
		second <- err
	}()
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	gittest.WantKind(t, <-second, "unauthenticated", "")
}

func TestReceived(t *testing.T) {
	for line, want := range map[string]int64{
		"Receiving objects:  50% (3/6), 1.20 KiB | 1.20 MiB/s": 6, "Receiving objects: 100% (12/12), done.": 12,
		"Receiving objects:": -1, "Receiving objects: (a/b)": -1, "Resolving deltas: 100% (1/1)": -1, "": -1, "Receiving objects: (1/-4)": -1,
	} {
		n, ok := received(line)
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: %d, %v", line, n, ok)
		}
	}
}

func TestIsProgress(t *testing.T) {
	for line, want := range map[string]bool{
		"remote: Enumerating objects: 5, done.": true, "remote: Counting objects:  20% (1/5)": true, "Receiving objects:  50% (3/6), 1.20 KiB | 1.20 MiB/s": true,
		"Resolving deltas: 100% (1/1), done.": true, "From https://example.org/o/r": false, "remote: pay us: 5 coins": false, "flag or run 'git config x true'": false, "": false,
		" * [new branch]      main -> refs/hortus/remote/heads/main": false,
	} {
		if isProgress(line) != want {
			t.Errorf("%q: %v", line, !want)
		}
	}
}

// failpoints are the named points of a fetch, and whether only a first one passes them.
var failpoints = []struct {
	name  string
	first bool
}{{"locked", false}, {"listed", false}, {"initialized", true}, {"fetched", false}, {"head set", false}, {"renamed", true}}

// TestFailpoints kills a process at each named point of a clone and of an update, with
// SIGKILL and so without any cleanup. The next fetch succeeds, nothing half-made has a
// name, and the lock is free.
func TestFailpoints(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []bool{true, false} {
		for _, p := range failpoints {
			if p.first && !first {
				continue
			}
			src := gittest.NewCheckout(t, map[string]string{"a": "1"})
			s := newServer(t, true)
			url, dir := s.bare(t, src, "a.git")
			c := newCache(t)
			old := ""
			if !first {
				old = head(t, fetch(t, c, url)).Hash
				gittest.WriteFiles(t, src, map[string]string{"a": "2"})
				gittest.Git(t, src, "commit", "-qam", "second")
				gittest.Git(t, src, "push", "-q", dir, "main")
			}
			repo := c.repo(must(git.ParseRemote(url, false)))
			cmd := exec.Command(exe)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HORTUS_GIT_KILL_DIR=" + c.cfg.Dir, "HORTUS_GIT_KILL_URL=" + url, "HORTUS_GIT_KILL_AT=" + p.name}
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%s: the process was not killed: %v", p.name, err)
			}
			over, stop := context.WithCancel(context.Background())
			stop()
			f, err := lockFile(over, repo.base+".lock")
			if err != nil {
				t.Errorf("%s: the lock is not free: %v", p.name, err)
			} else {
				f.Close()
			}
			// What has the name is whole: the old commit, or the new one.
			want := gittest.Git(t, src, "rev-parse", "HEAD")
			found, err := c.Find(url)
			switch {
			case err == nil:
				gittest.Git(t, repo.dir, "fsck", "--strict", "--connectivity-only")
				if h := head(t, found).Hash; h != want && h != old {
					t.Errorf("%s: HEAD is %s", p.name, h)
				}
			case !first || p.name == "renamed":
				t.Errorf("%s: %v", p.name, err)
			}
			if got := head(t, fetch(t, c, url)); got.Hash != want {
				t.Errorf("%s: afterwards HEAD is %s, want %s", p.name, got.Hash, want)
			}
			entries, err := os.ReadDir(c.cfg.Dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if n := e.Name(); n != "home" && !strings.HasSuffix(n, ".git") && !strings.HasSuffix(n, ".lock") {
					t.Errorf("%s: %s is left", p.name, n)
				}
			}
		}
	}
}
