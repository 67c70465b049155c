package cache

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
)

// TestKilledAtRandom kills a process, and the git that it runs, at random instants of clones
// and of updates. What has the name is always whole: an old commit or the new one. The lock is
// free, and the next fetch has everything and leaves nothing else.
func TestKilledAtRandom(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kills := tier.Count(4, 200)
	src := gittest.NewCheckout(t, map[string]string{"a": "1"})
	c := newCache(t)
	repo := c.repo(must(git.ParseRemote(src, false)))
	commit := func() string {
		// Some data that cannot be compressed, so that a fetch takes a while.
		raw := make([]byte, 256<<10)
		rand.Read(raw)
		gittest.WriteFiles(t, src, map[string]string{"a": hex.EncodeToString(raw)})
		gittest.Git(t, src, "commit", "-qam", "next")
		return gittest.Git(t, src, "rev-parse", "HEAD")
	}
	command := func() (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(exe)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HORTUS_GIT_KILL_DIR=" + c.cfg.Dir, "HORTUS_GIT_KILL_URL=" + src}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var said bytes.Buffer
		cmd.Stderr = &said
		return cmd, &said
	}
	// How long a whole fetch takes here bounds the instants: some come after its end.
	commit()
	began := time.Now()
	cmd, said := command()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	took := 2 * time.Since(began)
	known := map[string]bool{gittest.Git(t, src, "rev-parse", "HEAD"): true}
	fell := map[string]int{}
	for n := range kills {
		clone := n%3 == 0
		if clone {
			if err := c.Remove(gittest.Context(t), repo.Name()); err != nil {
				t.Fatal(err)
			}
			clear(known)
		}
		want := commit()
		known[want] = true
		at, err := rand.Int(rand.Reader, big.NewInt(int64(took)))
		if err != nil {
			t.Fatal(err)
		}
		cmd, said := command()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(at.Int64()), func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		timer.Stop()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if err != nil && !killed {
			t.Fatalf("kill %d: %v: %s", n, err, said)
		}
		// The git of the dead process may run on: it holds the lock until it ends.
		lock, err := lockFile(gittest.Context(t), repo.base+".lock")
		if err != nil {
			t.Fatalf("kill %d: the lock is not free: %v", n, err)
		}
		lock.Close()
		phase := "nothing yet"
		found, err := c.Find(src)
		switch {
		case err == nil:
			gittest.Git(t, repo.dir, "fsck", "--strict", "--connectivity-only")
			h := head(t, found).Hash
			if !known[h] {
				t.Errorf("kill %d: HEAD is %s", n, h)
			}
			phase = map[bool]string{true: "complete", false: "the old one"}[h == want]
		case !clone:
			t.Errorf("kill %d: the copy is gone: %v", n, err)
		default:
			if _, err := os.Stat(repo.base + ".new"); err == nil {
				phase = "half a clone, aside"
			}
		}
		fell[map[bool]string{true: "clone: ", false: "update: "}[clone]+phase]++
		if got := head(t, fetch(t, c, src)); got.Hash != want {
			t.Errorf("kill %d: afterwards HEAD is %s, want %s", n, got.Hash, want)
		}
		entries, err := os.ReadDir(c.cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if name := e.Name(); name != "home" && !strings.HasSuffix(name, ".git") && !strings.HasSuffix(name, ".lock") {
				t.Errorf("kill %d: %s is left", n, name)
			}
		}
		if half, _ := filepath.Glob(filepath.Join(repo.dir, "objects", "pack", "tmp_*")); len(half) > 0 {
			t.Errorf("kill %d: %v is left", n, half)
		}
	}
	t.Logf("%d kills within %v: %v", kills, took, fell)
}
