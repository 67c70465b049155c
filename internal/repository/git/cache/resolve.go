package cache

import (
	"context"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Commit is a commit found by [Repo.Resolve].
type Commit struct {
	Hash    string // full, in hex
	Tree    string // full, in hex
	Subject string // first line of the message, sanitized, at most 1 KiB
	Branch  string // branch that it was found by, without refs/heads/; empty for a tag or hash
	Time    time.Time
}

// Resolve returns the commit of a ref: the remote's HEAD if it is empty, otherwise a
// branch, a tag, a branch set by SetBranch, or a full or short hash, in this order. It
// does not contact the remote. KindNotFound; KindInvalid for an invalid name and for an
// ambiguous short hash.
func (r *Repo) Resolve(ctx context.Context, ref string) (Commit, error) {
	if ref == "" {
		hash, err := r.peel(ctx, remoteHead)
		if err != nil {
			return Commit{}, err
		}
		if hash == "" {
			return Commit{}, api.Errorf(api.KindNotFound, "the repository's HEAD is not a commit").WithHint("name a branch, or create a first commit")
		}
		branch, err := r.line(ctx, "for-each-ref", "--format=%(symref)", remoteHead)
		if err != nil {
			return Commit{}, err
		}
		return r.commit(ctx, hash, strings.TrimPrefix(branch, remoteHeads))
	}
	if err := git.CheckRevision(ref); err != nil {
		return Commit{}, err
	}
	branch, tag := ref, ref
	if s, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
		branch, tag = s, ""
	} else if s, ok := strings.CutPrefix(ref, "refs/tags/"); ok {
		branch, tag = "", s
	}
	var names, branches []string
	for _, try := range []struct{ prefix, name, branch string }{{remoteHeads, branch, branch}, {remoteTags, tag, ""}, {ownBranches, branch, branch}} {
		if try.name != "" {
			names, branches = append(names, try.prefix+try.name), append(branches, try.branch)
		}
	}
	if git.IsHash(ref) {
		names, branches = append(names, ref), append(branches, "")
	}
	found, err := r.peelAll(ctx, names...)
	if err != nil {
		return Commit{}, err
	}
	for i, hash := range found {
		if hash != "" && (names[i] != ref || hash == ref) { // the hash of a tag is not that of a commit
			return r.commit(ctx, hash, branches[i])
		}
	}
	if len(ref) >= 4 && len(ref) <= 64 && git.IsHex(ref) {
		return r.resolveHash(ctx, ref)
	}
	return Commit{}, api.Errorf(api.KindNotFound, "the repository has no branch, tag or commit %q", ref)
}

// line runs git in the repository and returns one line.
func (r *Repo) line(ctx context.Context, args ...string) (string, error) {
	return r.git.Line(ctx, git.Call{GitDir: r.dir, Args: args})
}

// peel returns the commit of a full ref name or hash, or "".
func (r *Repo) peel(ctx context.Context, ref string) (string, error) {
	found, err := r.peelAll(ctx, ref)
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// peelAll is peel for several names, with one process of git.
func (r *Repo) peelAll(ctx context.Context, refs ...string) ([]string, error) {
	ask := strings.Join(refs, "^{commit}\n") + "^{commit}\n"
	out, err := r.run(ctx, git.Call{Args: []string{"cat-file", "--batch-check=%(objecttype) %(objectname)"}, Stdin: strings.NewReader(ask), Max: 64 << 10})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(refs) {
		return nil, api.Errorf(api.KindInternal, "git cat-file printed unexpected output: %q", git.Sanitize(string(out), 200))
	}
	for i, line := range lines {
		hash, ok := strings.CutPrefix(line, "commit ")
		if !ok || !git.IsHash(hash) {
			hash = ""
		}
		lines[i] = hash
	}
	return lines, nil
}

// resolveHash finds a commit by a prefix of its hash.
func (r *Repo) resolveHash(ctx context.Context, prefix string) (Commit, error) {
	out, err := r.run(ctx, git.Call{Args: []string{"rev-parse", "--disambiguate=" + prefix}, Max: 1 << 20})
	if err != nil {
		return Commit{}, err
	}
	// Only commits count.
	if out, err = r.run(ctx, git.Call{Args: []string{"cat-file", "--batch-check=%(objecttype) %(objectname)"}, Stdin: strings.NewReader(string(out)), Max: 1 << 20}); err != nil {
		return Commit{}, err
	}
	found := ""
	for line := range strings.Lines(string(out)) {
		hash, ok := strings.CutPrefix(strings.TrimSpace(line), "commit ")
		if !ok || !git.IsHash(hash) {
			continue
		}
		if found != "" {
			return Commit{}, api.Errorf(api.KindInvalid, "more than one commit begins with %s", prefix).WithHint("give more of its hash")
		}
		found = hash
	}
	if found == "" {
		return Commit{}, api.Errorf(api.KindNotFound, "the repository has no branch, tag or commit %q", prefix).
			WithHint("only commits that are reachable from a branch or tag of the remote are fetched")
	}
	return r.commit(ctx, found, "")
}

// commit reads the fields of a Commit.
func (r *Repo) commit(ctx context.Context, hash, branch string) (Commit, error) {
	out, err := r.run(ctx, git.Call{Args: []string{"rev-list", "--no-walk", "--max-count=1", "--no-commit-header", "--format=%H%x00%T%x00%ct%x00%s", "--end-of-options", hash}, Max: 4 << 20})
	if err != nil {
		return Commit{}, err
	}
	c, err := parseCommit(string(out))
	c.Branch = branch
	return c, err
}

// Subjects returns the first lines of the newest n commits that a commit has, without merges.
func (r *Repo) Subjects(ctx context.Context, commit string, n int) ([]string, error) {
	if err := git.CheckHash("commit", commit); err != nil {
		return nil, err
	}
	out, err := r.run(ctx, git.Call{Args: []string{"rev-list", "--no-merges", "--max-count=" + strconv.Itoa(n), "--no-commit-header", "--format=%s", "--end-of-options", commit}, Max: 4 << 20})
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), nil
}

// Branches lists up to n names of branches of the remote, as of the last fetch.
func (r *Repo) Branches(ctx context.Context, n int) ([]string, error) {
	out, err := r.run(ctx, git.Call{Args: []string{"for-each-ref", "--count=" + strconv.Itoa(n), "--format=%(refname)", remoteHeads}, Max: 4 << 20})
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		names = append(names, strings.TrimPrefix(strings.TrimSuffix(line, "\n"), remoteHeads))
	}
	return names, nil
}

func parseCommit(s string) (Commit, error) {
	f := strings.SplitN(s, "\x00", 4)
	if len(f) != 4 || !git.IsHash(f[0]) || !git.IsHash(f[1]) {
		return Commit{}, api.Errorf(api.KindInternal, "git rev-list printed unexpected output: %q", git.Sanitize(s, 200))
	}
	// A commit may have any time, even one that is not a number.
	sec, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || sec < 0 || sec > 1<<40 {
		sec = 0
	}
	subject, _, _ := strings.Cut(f[3], "\n")
	subject = git.Sanitize(subject, 1<<20)
	if len(subject) > 1024 {
		subject = strings.ToValidUTF8(subject[:1024], "")
	}
	return Commit{Hash: f[0], Tree: f[1], Time: time.Unix(sec, 0).UTC(), Subject: subject}, nil
}
