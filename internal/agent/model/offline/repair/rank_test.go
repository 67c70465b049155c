package repair

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/test/tier"
)

// TestRankOfTheRightEdit measures, with one run of the gate for each mistake, how
// far down the list of edits the one stands that takes the mistake back. It is
// what TestRepairOfMutants comes to where every edit is tried, without the time.
//
// HORTUS_MUTANTS is how many for each language, HORTUS_MUTANT_SEED where they begin.
func TestRankOfTheRightEdit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		language string
		quick    int
		floor    int
	}{{"python", tier.Count(6, 16), 50}, {"javascript", tier.Count(5, 12), 50}, {"go", 5, 20}} {
		t.Run(c.language, func(t *testing.T) {
			if c.language == "go" {
				tier.Soak(t) // a compiler for each mutant
			}
			needLanguage(t, c.language)
			n := c.quick
			if v, err := strconv.Atoi(os.Getenv("HORTUS_MUTANTS")); err == nil {
				n = v
			}
			seed := uint64(1)
			if v, err := strconv.ParseUint(os.Getenv("HORTUS_MUTANT_SEED"), 10, 64); err == nil {
				seed = v
			}
			m := New()
			repos := repositories(t, c.language)
			r := rand.New(rand.NewPCG(seed, uint64(len(c.language))))
			var ranks, untraced []int
			broken := 0
			for tries := 0; broken < n && tries < 100*n+1000; tries++ {
				repo := repos[r.IntN(len(repos))]
				mut, ok := breakSource(r, repo.files, repo.sources)
				if !ok {
					continue
				}
				dir := t.TempDir()
				repo.plant(t, dir, mut)
				run := readRun(shellTool(t, dir, "timeout 20 sh -c '"+repo.gate+"'", map[string]string{"PYTHONDONTWRITEBYTECODE": "1"}, time.Minute))
				if run.passed() {
					continue
				}
				broken++
				var files []edit.File
				for p, s := range repo.files {
					if p == mut.path {
						s = mut.source
					}
					if edit.LangOf(p) != "" {
						files = append(files, edit.File{Path: p, Text: s})
					}
				}
				slices.SortFunc(files, func(a, b edit.File) int { return strings.Compare(a.Path, b.Path) })
				rp := &repairer{session: &session{agent: m}, files: files, gateRun: run, tree: tree{root: dir}}
				f := rp.seen()
				edits := edit.List(files, f, rp.hints(f))
				rankOf := func(edits []edit.Edit) int {
					return 1 + slices.IndexFunc(edits, func(e edit.Edit) bool {
						if e.Path != mut.path {
							return false
						}
						s, ok := e.Apply(mut.source)
						return ok && s == repo.files[mut.path]
					})
				}
				before := rankOf(edits)
				f.Trace = readTrace(shellTool(t, dir, inputOf(t, trace(repo.gate, edit.FailedTests(run.output))), nil, time.Minute), func(string) bool { return true })
				edits = edit.List(files, f, rp.hints(f))
				edits = edits[:edit.Reached(edits)]
				rank := rankOf(edits)
				if before > 0 {
					untraced = append(untraced, before)
				}
				if rank > 0 {
					ranks = append(ranks, rank)
				}
				t.Logf("rank %d of %d (%d without the trace): %s %s:%d %s: %q became %q", rank, len(edits), before, repo.name, mut.path, mut.line+1, mut.kind, mut.was, mut.now)
			}
			slices.Sort(ranks)
			if len(ranks)*100 < c.floor*broken || len(ranks) == 0 || len(untraced) == 0 {
				t.Fatalf("%d of %d right edits are in the list, want at least %d %%", len(ranks), broken, c.floor)
			}
			slices.Sort(untraced)
			within := func(ranks []int, n int) int {
				k, _ := slices.BinarySearch(ranks, n+1)
				return 100 * k / broken
			}
			for _, x := range []struct {
				what  string
				ranks []int
			}{{"ranked by the trace", ranks}, {"without the trace", untraced}} {
				t.Logf("%s, %s: %d of %d listed (%d %%); median rank %d; within the first 40: %d %%, 160: %d %%, 320: %d %%, 480: %d %%", c.language, x.what, len(x.ranks), broken,
					100*len(x.ranks)/broken, x.ranks[len(x.ranks)/2], within(x.ranks, 40), within(x.ranks, 160), within(x.ranks, 320), within(x.ranks, 480))
			}
		})
	}
}

// inputOf is the command of a call of the shell.
func inputOf(t *testing.T, c model.Call) string {
	t.Helper()
	var in struct{ Command string }
	if err := json.Unmarshal(c.Input, &in); err != nil {
		t.Fatal(err)
	}
	return in.Command
}
