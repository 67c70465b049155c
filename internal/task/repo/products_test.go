package repo_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"hortus.dev/api"
)

// TestProducts: what package managers and build tools make is not part of a change, unless the repository has such a thing.
func TestProducts(t *testing.T) {
	t.Parallel()
	const installs = `for d in node_modules/a web/node_modules/b .venv/lib __pycache__ .pytest_cache vendor/bundle/x target/debug venv p.egg-info; do mkdir -p $d; echo x > $d/f; echo x > $d/g; done; ` +
		`ln -s /usr/bin/python3 .venv/python; echo x > venv/pyvenv.cfg`
	left := []string{".pytest_cache 2", ".venv 3", "__pycache__ 2", "node_modules 2", "p.egg-info 2", "target 2", "vendor/bundle 2", "venv 3", "web/node_modules 2"}
	for _, c := range []struct {
		name  string
		more  map[string]string // files of the repository
		does  string
		left  []string
		files []string // changed files besides sum.sh
	}{
		{name: "left out", more: map[string]string{"Cargo.toml": "", "Gemfile": ""}, does: installs, left: left},
		{name: "names with other uses", does: "for d in target bundle venv build; do mkdir $d; echo x > $d/f; done", files: []string{"build/f", "bundle/f", "target/f", "venv/f"}},
		{name: "tracked", more: map[string]string{"fixtures/node_modules/a/f": "", "target/f": "", "Cargo.toml": ""}, does: "mkdir -p node_modules; echo x > node_modules/f; echo x > target/g; rm target/f",
			files: []string{"node_modules/f", "target/f", "target/g"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, nowhere{})
			files := maps.Clone(sum)
			maps.Copy(files, c.more)
			end, _ := b.do(t.Context(), &scripted{calls: []call{sh(c.does + "; " + mend), finish()}}, api.RepoTask{URL: makeRepo(t, files)})
			if end.Outcome != api.OutcomeVerified || len(end.Result.Rounds) != 1 {
				t.Fatalf("%s after %d rounds: %s %v", end.Outcome, len(end.Result.Rounds), end.Diagnosis, end.Error)
			}
			var gotLeft, gotFiles []string
			for _, l := range end.Result.LeftOut {
				gotLeft = append(gotLeft, fmt.Sprint(l.Path, " ", l.Files))
			}
			for _, f := range end.Result.Files {
				if f.Path != "sum.sh" {
					gotFiles = append(gotFiles, f.Path)
					if f.OldPath != "" {
						gotFiles = append(gotFiles, f.OldPath)
					}
				}
			}
			slices.Sort(gotFiles)
			if !slices.Equal(gotLeft, c.left) || !slices.Equal(gotFiles, c.files) {
				t.Errorf("left out %q, changed %q; want %q and %q", gotLeft, gotFiles, c.left, c.files)
			}
		})
	}
}

// TestBulky: large and binary additions are named.
func TestBulky(t *testing.T) {
	t.Parallel()
	b := newBench(t, nowhere{})
	does := `; printf 'a\000b' > small.bin; head -c 2097152 /dev/zero | tr '\000' a > long.txt; echo x > short.txt; printf 'c\000d' > AGENTS.md`
	end, _ := b.do(t.Context(), &scripted{calls: []call{sh(mend + does), finish()}}, api.RepoTask{URL: makeRepo(t, sum)})
	if got, want := end.Result.Bulky(), []string{"long.txt (2.0 MiB)", "small.bin (binary, 3 bytes)"}; end.Outcome != api.OutcomeVerified || !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", end.Outcome, got, want)
	}
}
