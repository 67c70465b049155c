package workspace

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

const forksIn = "HORTUS_TEST_FORKS_IN"

// TestForkHelper forks until it is killed, as a process of its own.
func TestForkHelper(t *testing.T) {
	dir := os.Getenv(forksIn)
	if dir == "" {
		t.Skip("it is run by TestForkKilled")
	}
	layers, err := layer.Open(filepath.Join(dir, "layers"))
	must(t, err)
	s, err := Open(context.Background(), Config{Dir: filepath.Join(dir, "workspaces"), Layers: layers})
	must(t, err)
	fmt.Println("ready")
	for {
		ids, err := s.List()
		must(t, err)
		w, err := s.Fork(context.Background(), ids[rand.IntN(len(ids))], New{})
		must(t, err)
		upper := filepath.Join(s.path(w.ID), Upper)
		fillFiles(t, filepath.Join(upper, "more"), 300)
		fmt.Println("forked")
		// Some are gone, so that there are not too many.
		if len(ids) > 6 {
			for _, id := range ids[1:4] {
				must(t, s.Remove(context.Background(), id, "test"))
			}
		}
	}
}

// TestForkKilled kills a process that forks: every workspace that is there has every file
// afterwards, and what nobody names is removed.
func TestForkKilled(t *testing.T) {
	f := newFixture(t, func(root string) { put(t, root, map[string]string{"base": "old", "gone": "old"}) })
	id, upper := f.create(t)
	fillFiles(t, filepath.Join(upper, "first"), 400)
	whiteOut(t, filepath.Join(upper, "gone"))
	f.Close()
	f.rows.all = map[api.WorkspaceID]api.Workspace{} // the processes have none
	shared := 0
	for round := range 12 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestForkHelper$")
		cmd.Env = append(os.Environ(), forksIn+"="+f.dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + rand.IntN(4) {
			if !lines.Scan() {
				t.Fatalf("round %d: it ended: %v", round, lines.Err())
			}
		}
		// Any instant of the next fork will do.
		time.Sleep(time.Duration(rand.IntN(80)) * time.Millisecond)
		must(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("round %d: it ended before: %v", round, err)
		}
		s, err := Open(t.Context(), Config{Dir: filepath.Join(f.dir, "workspaces"), Layers: f.layers})
		must(t, err)
		f.Store = s
		ids, err := s.List()
		must(t, err)
		if !slices.Contains(ids, id) && round == 0 {
			t.Error("the first is gone")
		}
		for _, id := range ids {
			rec, err := s.Get(id)
			must(t, err)
			shared = max(shared, len(rec.Layers))
			got := f.shows(t, id)
			if got["base"] != "regular old" || got["gone"] != "" {
				t.Errorf("round %d: base %q, gone %q", round, got["base"], got["gone"])
			}
			for i := range 400 {
				if want := fmt.Sprint("regular content ", i); got[fmt.Sprintf("first/d0/%d", i)] != want {
					t.Fatalf("round %d: %s has %q as file %d of %d layers", round, id, got[fmt.Sprintf("first/d0/%d", i)], i, len(rec.Layers))
				}
			}
		}
		s.work.Wait()
		if left, _ := filepath.Glob(filepath.Join(s.Dir(), "*-*")); len(left) != 0 {
			t.Errorf("round %d: left %v", round, left)
		}
		s.Close()
	}
	if shared < 3 {
		t.Errorf("at most %d layers: it was killed too early each time", shared)
	}
}
