package upkeep

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api/admin"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

func TestRepositories(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	src := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "x"}} {
		if out, err := exec.Command("git", append([]string{"-C", src}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	w := newWorld(t)
	cache, err := cache.Open(cache.Config{Dir: filepath.Join(w.dir, "repositories")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cache.Fetch(t.Context(), git.Source{URL: src}, nil); err != nil {
		t.Fatal(err)
	}
	at, busy := time.Now(), false
	keeper := w.keeper()
	keeper.cfg.Repositories, keeper.cfg.Now, keeper.cfg.Busy = cache, func() time.Time { return at }, func() bool { return busy }
	taken := func() (n int) {
		t.Helper()
		got, err := keeper.Collect(t.Context(), admin.CollectRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range got.Items {
			if it.Part == admin.PartRepositories {
				n++
			}
		}
		return n
	}
	if n := taken(); n != 0 {
		t.Errorf("%d were taken that were just used", n)
	}
	at, busy = at.Add(admin.DefaultKeep+time.Hour), true
	if n := taken(); n != 0 {
		t.Errorf("%d were taken while a task runs", n)
	}
	busy = false
	all, err := cache.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("%v %v", all, err)
	}
	kept := map[string]bool{all[0].Name: true}
	keeper.cfg.Connected = func(context.Context) (map[string]bool, error) { return kept, nil }
	if n := taken(); n != 0 {
		t.Errorf("%d were taken that are connected", n)
	}
	delete(kept, all[0].Name)
	if n := taken(); n != 1 {
		t.Errorf("%d were taken; want the old one", n)
	}
	if all, err := cache.List(); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
	// It comes back when it is needed.
	if _, err := cache.Fetch(t.Context(), git.Source{URL: src}, nil); err != nil {
		t.Error(err)
	}
}
