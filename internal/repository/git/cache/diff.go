package cache

import (
	"cmp"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// DiffOptions are the options of [Repo.Diff].
type DiffOptions struct {
	Renames bool  // detect renames
	Context int   // lines of context (default 3)
	Max     int64 // maximum size of the patch in bytes (default 64 MiB); KindExhausted beyond it
}

// Diff returns the patch from one commit to another, for git apply, including binary
// files.
func (r *Repo) Diff(ctx context.Context, from, to string, opt DiffOptions) ([]byte, error) {
	opt.Context = cmp.Or(opt.Context, 3)
	if opt.Context < 0 || opt.Max < 0 {
		return nil, api.Errorf(api.KindInvalid, "diff: a limit is negative")
	}
	return r.diffTree(ctx, from, to, opt.Renames, opt.Max, "--patch", "--binary", "--full-index", "--unified="+strconv.Itoa(opt.Context), "--src-prefix=a/", "--dst-prefix=b/", "--no-color")
}

func (r *Repo) diffTree(ctx context.Context, from, to string, renames bool, max int64, args ...string) ([]byte, error) {
	for _, h := range []string{from, to} {
		if err := git.CheckHash("diff", h); err != nil {
			return nil, err
		}
	}
	find := "--no-renames"
	if renames {
		find = "--find-renames"
	}
	args = append([]string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "--submodule=short", "-l1000", find}, args...)
	return r.run(ctx, git.Call{Args: append(args, "--end-of-options", from, to), Max: max})
}

// FileStat is the difference of a file between two commits.
type FileStat struct {
	Path    string
	OldPath string // old path; set only if Status is 'R'
	Status  byte   // 'A' added, 'M' modified, 'D' deleted, 'R' renamed, 'T' another type
	Added   int    // lines; 0 if Binary is set
	Deleted int    // lines; 0 if Binary is set
	Binary  bool
}

// Stat lists the files that differ between two commits, sorted by path.
func (r *Repo) Stat(ctx context.Context, from, to string) ([]FileStat, error) {
	out, err := r.diffTree(ctx, from, to, true, 0, "-z", "--raw", "--no-abbrev", "--numstat")
	if err != nil {
		return nil, err
	}
	stats, numbers, err := parseRaw(git.SplitNUL(out))
	if err != nil {
		return nil, err
	}
	return stats, parseNumbers(numbers, stats)
}

// parseRaw parses ":mode mode hash hash status" NUL path NUL, with a second path for a
// rename. It returns the fields after them, which parseNumbers parses.
func parseRaw(f []string) ([]FileStat, []string, error) {
	var stats []FileStat
	for len(f) > 0 && strings.HasPrefix(f[0], ":") {
		head := strings.Fields(f[0])
		if len(head) != 5 || len(f) < 2 {
			return nil, nil, api.Errorf(api.KindInternal, "git diff-tree printed unexpected output: %q", git.Sanitize(f[0], 200))
		}
		s := FileStat{Status: head[4][0], Path: f[1]}
		f = f[2:]
		switch s.Status {
		case 'A', 'M', 'D', 'T':
		case 'R':
			if len(f) == 0 {
				return nil, nil, api.Errorf(api.KindInternal, "git diff-tree printed incomplete output")
			}
			s.OldPath, s.Path, f = s.Path, f[0], f[1:]
		default:
			return nil, nil, api.Errorf(api.KindInternal, "git diff-tree printed an unknown status %q", s.Status)
		}
		stats = append(stats, s)
	}
	return stats, f, nil
}

// parseNumbers parses "added<tab>deleted<tab>path" NUL. For a rename the path is empty and
// two paths follow, each with a NUL.
func parseNumbers(f []string, stats []FileStat) error {
	byPath := make(map[string]int, len(stats))
	for i, s := range stats {
		byPath[s.Path] = i
	}
	for len(f) > 0 {
		part := strings.SplitN(f[0], "\t", 3)
		if len(part) != 3 {
			return api.Errorf(api.KindInternal, "git diff-tree printed unexpected output: %q", git.Sanitize(f[0], 200))
		}
		name := part[2]
		f = f[1:]
		if name == "" {
			if len(f) < 2 {
				return api.Errorf(api.KindInternal, "git diff-tree printed incomplete output")
			}
			name, f = f[1], f[2:]
		}
		i, ok := byPath[name]
		if !ok {
			return api.Errorf(api.KindInternal, "git diff-tree printed a count for the unlisted file %q", git.Sanitize(name, 200))
		}
		if part[0] == "-" && part[1] == "-" {
			stats[i].Binary = true
			continue
		}
		var err, err2 error
		stats[i].Added, err = strconv.Atoi(part[0])
		stats[i].Deleted, err2 = strconv.Atoi(part[1])
		if err != nil || err2 != nil || stats[i].Added < 0 || stats[i].Deleted < 0 {
			return api.Errorf(api.KindInternal, "git diff-tree printed unexpected output: %q", git.Sanitize(part[0]+" "+part[1], 200))
		}
	}
	return nil
}

// maxPatch is the maximum size of a patch, in bytes.
const maxPatch = 64 << 20

// Patch creates a commit with a patch applied to another commit, on no branch and with
// Hortus as author: for tests, not for delivery. KindInvalid if the patch does not apply
// completely or changes nothing.
func (r *Repo) Patch(ctx context.Context, commit string, patch io.Reader) (string, error) {
	if err := git.CheckHash("patch", commit); err != nil {
		return "", err
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	defer os.RemoveAll(r.workDir())
	d, err := r.quarantine(lock, nil)
	if err != nil {
		return "", err
	}
	if _, err := d.run(ctx, git.Call{Args: []string{"read-tree", "--end-of-options", commit}}); err != nil {
		return "", err
	}
	// Only the index is written, so links and paths of the patch are harmless.
	if _, err := d.run(ctx, git.Call{Args: []string{"apply", "--cached", "--whitespace=nowarn", "-"}, Stdin: io.LimitReader(patch, maxPatch)}); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", api.Errorf(api.KindInvalid, "the patch does not apply to %.10s: %w", commit, err)
	}
	var res CommitResult
	if res.Tree, err = d.run(ctx, git.Call{Args: []string{"write-tree"}}); err != nil {
		return "", err
	}
	was, err := d.run(ctx, git.Call{Args: []string{"rev-parse", "--verify", "--end-of-options", commit + "^{tree}"}})
	if err != nil {
		return "", err
	}
	if was == res.Tree {
		return "", api.Errorf(api.KindInvalid, "the patch changes nothing")
	}
	own := Identity{Name: "Hortus", Email: "hortus@hortus.dev"}
	err = d.commit(ctx, CommitRequest{Parent: commit, Author: own, Committer: own, Message: "Try a patch", When: time.Unix(0, 0)}, &res)
	return res.Hash, err
}
