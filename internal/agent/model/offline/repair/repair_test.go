package repair

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/agent/model/offline/repair/edit"
	"hortus.dev/test/tier"
)

// repository is one of the test's own, in testdata/repos.
type repository struct {
	name, gate string
	files      map[string]string
	sources    []string // what may be broken
}

func repositories(t testing.TB, language string) []repository {
	t.Helper()
	dirs, err := filepath.Glob("testdata/repos/" + language + "-*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no repositories: %v", err)
	}
	var out []repository
	for _, dir := range dirs {
		r := repository{name: filepath.Base(dir), files: map[string]string{}}
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(p)
			rel, _ := filepath.Rel(dir, p)
			if rel == "GATE" {
				r.gate = strings.TrimSpace(string(b))
				return err
			}
			r.files[rel] = string(b)
			if edit.LangOf(rel) != "" && !edit.IsTest(rel) && len(b) > 0 {
				r.sources = append(r.sources, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(r.sources)
		out = append(out, r)
	}
	return out
}

// plant writes the repository, with one file changed, and commits it.
func (r repository) plant(t testing.TB, dir string, m mutant) {
	t.Helper()
	for p, s := range r.files {
		if p == m.path {
			s = m.source
		}
		full := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", "git init -q . && git add -A && git -c user.name=t -c user.email=t@example.org commit -qm start")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git: %v\n%s", err, out)
	}
}

// changed lists what differs from the planted tree.
func changed(t testing.TB, dir string) string {
	t.Helper()
	cmd := exec.Command("git", "status", "--porcelain", "--untracked-files=all")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// needLanguage skips where a language's interpreter is not there.
func needLanguage(t *testing.T, language string) {
	t.Helper()
	program := map[string]string{"python": "python3", "javascript": "node", "go": "go"}[language]
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("no %s on this machine", program)
	}
}

// TestRepairOfMutants measures how many seeded mistakes in repositories of
// several files are repaired. It counts only what the gate sees. Beside the rate
// it prints how often the very line came back that was there before: a gate that
// passes may be passed by another edit too.
//
// HORTUS_MUTANTS is how many for each language (a quick sample if it is not set),
// HORTUS_MUTANT_SEED where they begin.
func TestRepairOfMutants(t *testing.T) {
	for _, c := range []struct {
		language string
		quick    int
		floor    int // percent of a large sample
	}{{"python", 2, 45}, {"javascript", 2, 40}, {"go", 1, 20}} {
		t.Run(c.language, func(t *testing.T) {
			tier.Soak(t) // TestExampleTasks repairs two repositories in T1
			needLanguage(t, c.language)
			n, full := c.quick, false
			if s := os.Getenv("HORTUS_MUTANTS"); s != "" {
				v, err := strconv.Atoi(s)
				if err != nil {
					t.Fatal(err)
				}
				n, full = v, true
			}
			seed := uint64(1)
			if s := os.Getenv("HORTUS_MUTANT_SEED"); s != "" {
				v, err := strconv.ParseUint(s, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				seed = v
			}
			score := measure(t, c.language, n, seed)
			t.Log(score)
			floor := c.floor
			if !full {
				floor = 0 // so few say nothing; TestRankOfTheRightEdit has a floor for them
			}
			if score.repaired*100 < floor*score.broken || score.repaired == 0 && !full && c.language != "go" {
				t.Errorf("repaired %d of %d, want at least %d %%", score.repaired, score.broken, floor)
			}
		})
	}
}

// score is what came of a sample.
type score struct {
	broken, repaired, restored, edits, steps int
	took                                     time.Duration
	kinds                                    map[string][2]int
}

func (s score) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "repaired %d of %d (%d %%), %d of them as it was before; %d steps and %.1f s for each", s.repaired, s.broken,
		100*s.repaired/max(1, s.broken), s.restored, s.steps/max(1, s.broken), s.took.Seconds()/float64(max(1, s.broken)))
	var kinds []string
	for k := range s.kinds {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		fmt.Fprintf(&b, "\n  %-18s %d of %d", k, s.kinds[k][0], s.kinds[k][1])
	}
	return b.String()
}

func measure(t *testing.T, language string, n int, seed uint64) score {
	m := New()
	m.limit.calls = 1 // a machine that is busy takes minutes for each
	repos := repositories(t, language)
	r := rand.New(rand.NewPCG(seed, uint64(len(language))))
	s := score{kinds: map[string][2]int{}}
	for tries := 0; s.broken < n && tries < 100*n+1000; tries++ {
		if end, ok := t.Deadline(); ok && time.Until(end) < 5*time.Minute {
			t.Logf("no time for more than %d of %d", s.broken, n)
			break
		}
		repo := repos[r.IntN(len(repos))]
		mut, ok := breakSource(r, repo.files, repo.sources)
		if !ok {
			continue
		}
		dir := t.TempDir()
		repo.plant(t, dir, mut)
		if strings.HasSuffix(shellTool(t, dir, "PYTHONDONTWRITEBYTECODE=1 timeout 20 sh -c '"+repo.gate+"'", nil, 60*time.Second), "[exit code 0]") {
			continue // nobody can see it
		}
		s.broken++
		start := time.Now()
		w, err := drive(t, m, dir, briefOf("Fix the failing test", repo.gate))
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		s.took += took
		s.steps += w.steps
		kind := s.kinds[mut.kind]
		kind[1]++
		passes := strings.HasSuffix(shellTool(t, dir, "PYTHONDONTWRITEBYTECODE=1 "+repo.gate, nil, 5*time.Minute), "[exit code 0]")
		status := changed(t, dir)
		switch {
		case passes && w.blocked == "":
			s.repaired++
			kind[0]++
			if status == "" {
				t.Error("the gate failed, passes, and nothing was changed")
			}
			b, err := os.ReadFile(filepath.Join(dir, mut.path))
			if err != nil {
				t.Fatal(err)
			}
			if string(b) == repo.files[mut.path] {
				s.restored++
				t.Logf("restored (%.0f s): %s %s", took.Seconds(), repo.name, mut.kind)
			} else {
				t.Logf("another way: %s %s:%d %s: %q became %q; %s", repo.name, mut.path, mut.line+1, mut.kind, mut.was, mut.now, w.summary)
			}
		case w.blocked == "":
			t.Errorf("it says that it is done, and the gate fails: %s", w.summary)
		default:
			if status != "" {
				t.Errorf("it gave up and left changes behind:\n%s", status)
			}
			t.Logf("missed (%.0f s, %d steps): %s %s:%d %s: %q became %q; %s", took.Seconds(), w.steps, repo.name, mut.path, mut.line+1, mut.kind, mut.was, mut.now, w.blocked)
		}
		for line := range strings.SplitSeq(status, "\n") {
			if f := strings.Fields(line); len(f) == 2 && (f[0] != "M" || edit.IsTest(f[1])) {
				t.Errorf("it touched %s", line)
			}
		}
		s.kinds[mut.kind] = kind
	}
	return s
}
