package repo_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/task/repo"
)

// installer is a setup that copies the lock file to a file that it installs.
type installer struct {
	sandboxes *local
	asked     []repo.SetupRequest
}

func (s *installer) Prepare(ctx context.Context, q repo.SetupRequest) (repo.SetupResult, error) {
	s.asked = append(s.asked, q)
	lock := string(q.Read("lock", 1<<10))
	out := repo.SetupResult{Key: "key of " + lock, Release: func() {}}
	if out.Key == q.Known {
		return out, nil
	}
	l, release, err := s.sandboxes.Layer(ctx, out.Key, func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "installed"), []byte(lock), 0o644)
	})
	out.Layers, out.Release = []repo.Layer{l}, release
	return out, err
}

// TestDependenciesOfTheWork: a gate has what the changed lock file installs, and that of the base
// for a work that leaves it alone.
func TestDependenciesOfTheWork(t *testing.T) {
	for _, c := range []struct {
		name, do string
		layers   int // that were installed
		outcome  api.Outcome
	}{
		{"the lock file is left alone", mend, 1, api.OutcomeVerified},
		{"the lock file is changed", mend + "; echo 2 > lock", 2, api.OutcomeVerified},
		{"the lock file is removed", mend + "; rm lock", 2, api.OutcomeNeedsHuman},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nowhere{})
			s := &installer{sandboxes: b.sandboxes}
			b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Setup: s})
			files := maps.Clone(sum)
			files["lock"] = "1\n"
			end, _ := b.do(t.Context(), &scripted{calls: []call{sh(c.do), finish()}},
				api.RepoTask{URL: makeRepo(t, files), Rounds: -1, Verify: "cmp lock installed && sh test.sh"})
			if end.Outcome != c.outcome {
				t.Fatalf("%s: %s %v", end.Outcome, end.Diagnosis, end.Error)
			}
			keys := map[string]bool{}
			for i, q := range s.asked {
				keys[string(q.Read("lock", 1<<10))] = true
				if first := i == 0; first != (q.Work == "") || first != (q.Known == "") {
					t.Errorf("request %d is of the work %q, and knows %q", i, q.Work, q.Known)
				}
			}
			if len(keys) != c.layers || len(s.asked) < 2 {
				t.Errorf("%d requests for %d lock files, want %d", len(s.asked), len(keys), c.layers)
			}
		})
	}
}

// TestSetupOfGoTests: each setup of a task knows what the tests of its base compile, also one of a work that changes the Makefile.
func TestSetupOfGoTests(t *testing.T) {
	b := newBench(t, nowhere{})
	s := &installer{sandboxes: b.sandboxes}
	b.run = repo.New(repo.Config{Git: b.cache, Sandboxes: b.sandboxes, Deliverer: nowhere{}, Setup: s})
	files := maps.Clone(sum)
	files["go.mod"], files["Makefile"], files["lock"] = "module a\n", "test:\n\tsh test.sh\nunit:\n\tgo test -race -v ./...\n", "1\n"
	b.do(t.Context(), &scripted{calls: []call{sh(mend + "; sed -i s/-race// Makefile"), finish()}}, api.RepoTask{URL: makeRepo(t, files), Rounds: -1, Verify: "sh test.sh || make unit"})
	if len(s.asked) < 2 {
		t.Fatalf("%d setups", len(s.asked))
	}
	for i, q := range s.asked {
		if !slices.Equal(q.GoTests, []string{"go test -race"}) {
			t.Errorf("setup %d: %q", i, q.GoTests)
		}
	}
}
