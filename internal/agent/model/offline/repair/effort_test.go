package repair

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/test/tier"
)

// TestEffortOfRepairs repairs the same fresh mistakes twice in one run: with the trace
// and the bounds of a repair, and without them (seven calls, no ranking by the trace,
// no early stop). It compares the share that is repaired and the time to give up.
//
// HORTUS_MUTANTS is how many for each language, HORTUS_MUTANT_SEED where they begin.
func TestEffortOfRepairs(t *testing.T) {
	for _, language := range []string{"python", "javascript"} {
		t.Run(language, func(t *testing.T) {
			tier.Soak(t) // minutes for each mistake that is not repaired
			needLanguage(t, language)
			n, seed := 3, uint64(1)
			if v, err := strconv.Atoi(os.Getenv("HORTUS_MUTANTS")); err == nil {
				n = v
			}
			if v, err := strconv.ParseUint(os.Getenv("HORTUS_MUTANT_SEED"), 10, 64); err == nil {
				seed = v
			}
			bounded, unbounded := New(), New()
			unbounded.untraced = true
			unbounded.limit = effort{calls: 7, seconds: 7 * 170, idle: 1 << 20}
			var with, without tally
			repos := repositories(t, language)
			r := rand.New(rand.NewPCG(seed, uint64(len(language))))
			for broken, tries := 0, 0; broken < n && tries < 100*n+1000; tries++ {
				repo := repos[r.IntN(len(repos))]
				mut, ok := breakSource(r, repo.files, repo.sources)
				if !ok {
					continue
				}
				dir := t.TempDir()
				repo.plant(t, dir, mut)
				if strings.HasSuffix(shellTool(t, dir, "PYTHONDONTWRITEBYTECODE=1 timeout 20 sh -c '"+repo.gate+"'", nil, time.Minute), "[exit code 0]") {
					continue
				}
				broken++
				a, b := with.repair(t, bounded, repo, mut), without.repair(t, unbounded, repo, mut)
				t.Logf("%s: %s %s: %q became %q\n\tbounded: %s\n\tunbounded: %s", repo.name, mut.path, mut.kind, mut.was, mut.now, a, b)
			}
			slices.Sort(with.gaveUp)
			slices.Sort(without.gaveUp)
			t.Logf("%s: repaired %d of %d with the bounds, %d without; mean time %.1f s and %.1f s; given up after %.0f s and %.0f s", language,
				with.repaired, n, without.repaired, with.took/float64(n), without.took/float64(n), with.gaveUp, without.gaveUp)
			if with.repaired+1+n/10 < without.repaired {
				t.Errorf("the bounds cost %d of %d repairs", without.repaired-with.repaired, without.repaired)
			}
		})
	}
}

// tally is what came of the repairs of one model.
type tally struct {
	repaired int
	took     float64
	gaveUp   []float64 // seconds of each
}

func (s *tally) repair(t *testing.T, m *Agent, repo repository, mut mutant) string {
	t.Helper()
	dir := t.TempDir()
	repo.plant(t, dir, mut)
	start := time.Now()
	w, err := drive(t, m, dir, briefOf("Fix the failing test", repo.gate))
	if err != nil {
		t.Fatal(err)
	}
	seconds := time.Since(start).Seconds()
	s.took += seconds
	if w.blocked == "" {
		s.repaired++
		return strconv.Itoa(int(seconds)) + " s: " + w.summary
	}
	s.gaveUp = append(s.gaveUp, seconds)
	return strconv.Itoa(int(seconds)) + " s: " + w.blocked
}
