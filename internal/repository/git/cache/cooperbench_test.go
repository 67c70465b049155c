package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
)

// cooperBench is the environment variable with the directory of the data set CooperBench: a
// directory "dataset", as in its repository, and a directory "repositories" with a bare clone
// NAME.git of each repository of the tasks.
const cooperBench = "HORTUS_COOPERBENCH"

// pairResult is a pair of features in gold_conflict_report.json.
type pairResult struct {
	Repo     string `json:"repo"`
	Task     int    `json:"task_id"`
	One      int    `json:"f1"`
	Two      int    `json:"f2"`
	Conflict bool   `json:"has_conflict"`
	// The authors' patch was not applied. Then git merge-tree says whether there is a conflict.
	Failed1 bool `json:"patch1_apply_failed"`
	Failed2 bool `json:"patch2_apply_failed"`
}

// pairCount counts the pairs of a task.
type pairCount struct {
	pairs, unreported, expected, conflicts, missed, more int
	reversed, notReversed                                int // patches that apply in reverse to a merge
	identical                                            int // hunks
}

// TestCooperBench merges each pair of features of CooperBench, and compares the conflicts with the
// ones that its authors report, and the merges with those of git merge-tree.
func TestCooperBench(t *testing.T) {
	tier.Soak(t)
	dir := os.Getenv(cooperBench)
	if dir == "" {
		t.Skipf("%s is not set to the directory of the data set", cooperBench)
	}
	b, err := os.ReadFile(filepath.Join(dir, "dataset", "gold_conflict_report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Results []pairResult `json:"all_results"`
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	tasks := map[string][]pairResult{}
	for _, p := range report.Results {
		name := fmt.Sprintf("%s/task%d", p.Repo, p.Task)
		tasks[name] = append(tasks[name], p)
	}
	var sum pairCount
	for name, pairs := range tasks {
		t.Run(name, func(t *testing.T) {
			n := mergePairs(t, dir, name, pairs)
			t.Logf("%+v", n)
			sum.pairs += n.pairs
			sum.unreported += n.unreported
			sum.expected += n.expected
			sum.conflicts += n.conflicts
			sum.missed += n.missed
			sum.more += n.more
			sum.reversed += n.reversed
			sum.notReversed += n.notReversed
			sum.identical += n.identical
		})
	}
	t.Logf("sum: %+v", sum)
	if sum.pairs == 0 {
		t.Error("no pair was merged")
	}
}

var (
	cloned     = regexp.MustCompile(`github\.com/[^/\s]+/([^/\s]+)`)
	checkedOut = regexp.MustCompile(`git checkout ([0-9a-f]{40})`)
	inTests    = regexp.MustCompile(`/test_|/tests/|_test\.py|/test/|tests\.py`)
)

// mergePairs merges the pairs of a task.
func mergePairs(t *testing.T, dir, name string, pairs []pairResult) (n pairCount) {
	task := filepath.Join(dir, "dataset", name)
	text, err := os.ReadFile(filepath.Join(task, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	from, at := cloned.FindSubmatch(text), checkedOut.FindSubmatch(text)
	if from == nil || at == nil {
		t.Fatal("the Dockerfile names no repository or commit")
	}
	clone := filepath.Join(dir, "repositories", strings.TrimSuffix(string(from[1]), ".git")+".git")
	if clone, err = filepath.EvalSymlinks(clone); errors.Is(err, os.ErrNotExist) {
		t.Skipf("repositories has no clone of %s", from[1])
	} else if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(gittest.RealPath(t, t.TempDir()), "src")
	gittest.Git(t, dir, "clone", "-q", "--bare", "--local", "--no-tags", clone, src)
	for _, ref := range strings.Fields(gittest.Git(t, src, "for-each-ref", "--format=%(refname)")) {
		gittest.Git(t, src, "update-ref", "-d", ref)
	}
	// The history does not matter, and takes long to fetch.
	base := gittest.Git(t, src, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit-tree", gittest.Git(t, clone, "rev-parse", string(at[1])+"^{tree}"), "-m", "base")
	gittest.Git(t, src, "update-ref", "refs/heads/main", base)
	gittest.Git(t, src, "symbolic-ref", "HEAD", "refs/heads/main")
	r := fetch(t, newCache(t), src)
	features := map[int]feature{}
	for _, p := range pairs {
		for _, f := range []int{p.One, p.Two} {
			if _, ok := features[f]; !ok {
				features[f] = newFeature(t, r, base, filepath.Join(task, "feature"+strconv.Itoa(f), "feature.patch"))
			}
		}
	}
	for _, p := range pairs {
		one, two := features[p.One], features[p.Two]
		n.pairs++
		res := merged(t, r, base, two.commit, one.commit)
		n.identical += len(res.Identical)
		if len(res.Lost) > 0 {
			t.Errorf("%+v: lost %+v", p, res.Lost)
		}
		plain, err := gittest.TryGit(t, r.dir, "merge-tree", "--write-tree", "--no-messages", two.commit, one.commit)
		plain = strings.TrimSpace(plain)
		if plainConflict := git.ExitCode(err, 1); err != nil && !plainConflict {
			t.Fatalf("git merge-tree: %v, %s", err, plain)
		} else if p.Failed1 || p.Failed2 {
			n.unreported++
			p.Conflict = plainConflict
		} else if plainConflict != p.Conflict {
			t.Errorf("%+v: git merge-tree finds conflicts: %v", p, plainConflict)
		}
		if p.Conflict {
			n.expected++
		}
		if len(res.Conflicts) > 0 {
			n.conflicts++
			if !p.Conflict {
				n.more++
				t.Logf("%+v: only Merge finds %s", p, kinds(res.Conflicts))
			}
			continue
		}
		if p.Conflict {
			n.missed++
			t.Errorf("%+v: the conflict is not found", p)
		}
		commit := res.Commit
		if res.Empty {
			commit = two.commit
		}
		if got := gittest.Git(t, r.dir, "rev-parse", commit+"^{tree}"); got != plain {
			t.Errorf("%+v: the tree differs from that of git merge-tree:\n%s", p, gittest.Git(t, r.dir, "diff", plain, got))
		}
		if other := merged(t, r, base, one.commit, two.commit); len(other.Conflicts) > 0 || !res.Empty && !other.Empty && gittest.Git(t, r.dir, "rev-parse", other.Commit+"^{tree}") != plain {
			t.Errorf("%+v: the merge in the other direction differs: %+v", p, other)
		}
		for _, why := range miscounted(t, r, base, two.commit, one.commit, commit) {
			t.Errorf("%+v: %s", p, why)
		}
		for _, f := range []feature{one, two} {
			if f.appliesInReverse(t, r, commit) {
				n.reversed++
			} else {
				n.notReversed++
			}
		}
	}
	return n
}

// miscounted counts the lines of each file that both sides changed.
func miscounted(t *testing.T, r *Repo, base, ours, theirs, merged string) (wrong []string) {
	t.Helper()
	both := map[string]int{}
	for _, side := range []string{ours, theirs} {
		stats, err := r.Stat(gittest.Context(t), base, side)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stats {
			if both[s.Path]++; both[s.Path] < 2 || s.Status != 'M' || s.Binary {
				continue
			}
			var versions [4][]string
			for i, commit := range []string{base, ours, theirs, merged} {
				b, err := r.ReadFile(gittest.Context(t), commit, s.Path, 16<<20)
				if err != nil {
					t.Fatal(err)
				}
				versions[i] = lines(b)
			}
			if why := wrongMerge(versions[0], versions[1], versions[2], versions[3], false); why != "" {
				wrong = append(wrong, s.Path+": "+why)
			}
		}
	}
	return wrong
}

func kinds(conflicts []Conflict) string {
	var s []string
	for _, c := range conflicts {
		s = append(s, fmt.Sprint(c.Path, " ", c.Kind, " ", c.Renamed))
	}
	return strings.Join(s, ", ")
}

// feature is the patch of a feature without tests, and its commit.
type feature struct{ patch, commit string }

func newFeature(t *testing.T, r *Repo, base, name string) feature {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var patch strings.Builder
	skip := false
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "diff --git") {
			skip = inTests.MatchString(line)
		}
		if !skip {
			patch.WriteString(line)
		}
	}
	f := feature{patch: strings.TrimSuffix(patch.String(), "\n") + "\n"}
	if f.commit, err = r.Patch(gittest.Context(t), base, strings.NewReader(f.patch)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f
}

// appliesInReverse reports whether the patch can be taken out of a commit. The other feature may have
// changed its lines of context.
func (f feature) appliesInReverse(t *testing.T, r *Repo, commit string) bool {
	t.Helper()
	index := "GIT_INDEX_FILE=" + filepath.Join(t.TempDir(), "index")
	for _, args := range [][]string{{"read-tree", commit}, {"apply", "--cached", "--check", "--reverse", "-C0", "-"}} {
		cmd := exec.CommandContext(gittest.Context(t), "git", append([]string{"--git-dir=" + r.dir}, args...)...)
		cmd.Env = append(os.Environ(), index)
		cmd.Stdin = strings.NewReader(f.patch)
		if out, err := cmd.CombinedOutput(); err != nil {
			if args[0] == "apply" {
				return false
			}
			t.Fatalf("git read-tree: %s", out)
		}
	}
	return true
}
