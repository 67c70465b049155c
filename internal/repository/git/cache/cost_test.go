package cache

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/test/gittest"
	"hortus.dev/test/tier"
)

// gitCalls counts the processes of git, by what a cache logs.
type gitCalls struct{ n atomic.Int64 }

func (*gitCalls) Enabled(context.Context, slog.Level) bool { return true }
func (c *gitCalls) WithAttrs([]slog.Attr) slog.Handler     { return c }
func (c *gitCalls) WithGroup(string) slog.Handler          { return c }
func (c *gitCalls) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "git" {
		c.n.Add(1)
	}
	return nil
}

// TestMergeCost: a merge starts few processes of git, however many files the repository has. The time is logged beside that of git's own
// merge-tree, commit-tree and update-ref, which check none of it.
func TestMergeCost(t *testing.T) {
	files := map[string]string{"both": numbered()}
	for i := range 200 {
		files[fmt.Sprintf("dir-%d/file-%d", i%20, i)] = fmt.Sprintf("file %d\n", i)
	}
	calls := &gitCalls{}
	r := fetch(t, newCache(t, func(c *Config) { c.Logger = slog.New(calls) }), gittest.NewCheckout(t, files))
	base := head(t, r).Hash
	for _, c := range []struct {
		name   string
		ours   []Change
		theirs func(i int) []Change
		most   int64
	}{
		{"other files", []Change{file("new", "x\n")}, func(i int) []Change {
			return []Change{file(fmt.Sprintf("dir-%d/file-%d", i%20, i), "theirs\n"), file(fmt.Sprintf("dir-%d/new", i), "new\n")}
		}, 5},
		{"lines of a file", []Change{file("both", numbered("2", "ours\n"))}, func(i int) []Change {
			return []Change{file("both", numbered("8", fmt.Sprintf("theirs %d\n", i)))}
		}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			ours := commitOn(t, r, base, c.ours...)
			var took, plain []time.Duration
			var processes []int64
			for i := range tier.Count(3, 20) {
				theirs := commitOn(t, r, base, c.theirs(i)...)
				branch := fmt.Sprintf("%.1s-%d", c.name, i)
				if err := r.MoveBranch(gittest.Context(t), branch, "", ours); err != nil {
					t.Fatal(err)
				}
				before, began := calls.n.Load(), time.Now()
				res := merged(t, r, base, ours, theirs)
				took = append(took, time.Since(began))
				began = time.Now()
				if err := r.MoveBranch(gittest.Context(t), branch, ours, res.Commit); err != nil {
					t.Fatal(err)
				}
				took[i] += time.Since(began)
				if processes = append(processes, calls.n.Load()-before); res.Commit == "" {
					t.Fatalf("%+v", res)
				}
				began = time.Now()
				out, err := gittest.TryGit(t, r.dir, "merge-tree", "--write-tree", ours, theirs)
				if err != nil {
					t.Logf("git merge-tree: %v", err) // before git 2.38
					continue
				}
				tree, _, _ := strings.Cut(out, "\n")
				commit := gittest.Git(t, r.dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit-tree", "-p", ours, "-m", "Merge", tree)
				gittest.Git(t, r.dir, "update-ref", "refs/plain", commit)
				plain = append(plain, time.Since(began))
				if mine := gittest.Git(t, r.dir, "rev-parse", res.Commit+"^{tree}"); mine != tree {
					t.Errorf("the tree is %s, and that of merge-tree %s", mine, tree)
				}
			}
			slices.Sort(processes)
			if n := processes[len(processes)/2]; n > c.most { // one that joins packs has another one
				t.Errorf("a merge has %d processes of git; want at most %d", n, c.most)
			}
			slices.Sort(took)
			slices.Sort(plain)
			if n := len(plain); n > 0 {
				mine, git := took[n/2], plain[n/2]
				t.Logf("%v, and %v by plain git: %.1f times as long", mine, git, float64(mine)/float64(git))
			}
		})
	}
}
