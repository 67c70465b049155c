package cache

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/shadow"
)

// SetBranch sets a branch that exists only in the cache to a commit, creating or moving
// it. An empty commit removes the branch, if it is there. KindInvalid for an invalid name, KindNotFound for an unknown commit.
func (r *Repo) SetBranch(ctx context.Context, name, commit string) error {
	if err := r.git.CheckBranch(ctx, name); err != nil {
		return err
	}
	args := []string{"update-ref", "--no-deref", "-d", ownBranches + name}
	if commit != "" {
		if err := r.requireCommit(ctx, commit); err != nil {
			return err
		}
		args = []string{"update-ref", "--no-deref", ownBranches + name, commit}
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	_, err = r.run(ctx, git.Call{Args: args, Lock: lock})
	return err
}

// MoveBranch moves a branch that exists only in the cache from one commit to another. An empty
// from creates the branch. KindConflict, and no change, if the branch is not at from.
func (r *Repo) MoveBranch(ctx context.Context, name, from, to string) error {
	if err := git.CheckRevision(name); err != nil {
		return err
	}
	if err := git.CheckHash("branch", to); err != nil {
		return err
	}
	old := strings.Repeat("0", len(to))
	if from != "" {
		if err := git.CheckHash("branch", from); err != nil {
			return err
		}
		old = from
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	found, err := r.peelAll(ctx, ownBranches+name, to)
	if err != nil {
		return err
	}
	at := found[0]
	if at == "" { // one that exists has a valid name
		if err := r.git.CheckBranch(ctx, name); err != nil {
			return err
		}
	}
	if found[1] != to {
		return api.Errorf(api.KindNotFound, "the repository has no commit %s", to)
	}
	if at != from {
		return api.Errorf(api.KindConflict, "the branch %q is at %s, not at %s", name, cmp.Or(at, "no commit"), cmp.Or(from, "no commit"))
	}
	_, err = r.run(ctx, git.Call{Args: []string{"update-ref", "--no-deref", ownBranches + name, to, old}, Lock: lock})
	return err
}

// requireCommit returns KindNotFound if the repository does not have a commit.
func (r *Repo) requireCommit(ctx context.Context, commit string) error {
	if err := git.CheckHash("commit", commit); err != nil {
		return err
	}
	found, err := r.peel(ctx, commit)
	if err == nil && found != commit {
		err = api.Errorf(api.KindNotFound, "the repository has no commit %s", commit)
	}
	return err
}

// Bundle writes a bundle of a branch set by SetBranch to w: the commits from base to it,
// under the name refs/heads/<branch>. A repository that has base can fetch from it. An
// empty base bundles the whole history. KindConflict if the branch has no commit that base
// does not have. After an error, w may have received a part.
func (r *Repo) Bundle(ctx context.Context, w io.Writer, branch, base string) error {
	if err := r.git.CheckBranch(ctx, branch); err != nil {
		return err
	}
	hash, err := r.peel(ctx, ownBranches+branch)
	if err != nil {
		return err
	}
	if hash == "" {
		return api.Errorf(api.KindNotFound, "the cache has no branch %q", branch)
	}
	args := []string{"bundle", "create", "--quiet", "-", "refs/heads/" + branch}
	if base != "" {
		if err := r.requireCommit(ctx, base); err != nil {
			return err
		}
		count, err := r.line(ctx, "rev-list", "--count", "--end-of-options", hash, "^"+base)
		if err != nil {
			return err
		}
		if count == "0" {
			return api.Errorf(api.KindConflict, "the branch %q has no commit that %s does not have", branch, base)
		}
		args = append(args, "^"+base)
	}
	// A bundle has the ref names of its repository, so create it in a shadow where the
	// branch is refs/heads/<branch>.
	dir, err := os.MkdirTemp(r.cache.cfg.Dir, "tmp-")
	if err != nil {
		return api.Errorf(api.KindInternal, "bundle: %w", err)
	}
	defer os.RemoveAll(dir)
	mine := shadow.NewOwn(r.git, r.dir, "refs/heads/"+branch)
	if len(hash) == 64 {
		mine.Config["extensions.objectformat"] = "sha256"
	}
	lean := filepath.Join(dir, "lean")
	if err := mine.Shadow(ctx, lean, true); err != nil {
		return err
	}
	if _, err := r.git.Run(ctx, git.Call{GitDir: lean, Args: []string{"update-ref", "refs/heads/" + branch, hash}}); err != nil {
		return err
	}
	_, err = r.git.Run(ctx, git.Call{GitDir: lean, Args: args, Stdout: w, Max: 1 << 40})
	return err
}

// Change is a file that differs from the parent.
type Change struct {
	Path   string // relative to the root of the tree, with slashes
	Mode   Mode   // Regular, Executable or Symlink; ignored if Delete is set
	Delete bool
	Size   int64 // of the content, in bytes; the change is refused if it differs
	// Open returns the content, or a link's target. It is called at most once, and
	// Commit closes the result.
	Open func() (io.ReadCloser, error)
}

// Identity is an author or a committer.
type Identity struct{ Name, Email string }

// Limits bound a commit. Zero means the default.
type Limits struct {
	Files     int   // maximum number of changes (default 20,000)
	FileBytes int64 // maximum size of a file (default 50 MiB)
	Bytes     int64 // maximum size of all files (default 500 MiB)
}

// CommitRequest describes a new commit.
type CommitRequest struct {
	Parent    string // full hash
	Changes   []Change
	Author    Identity
	Committer Identity
	Message   string   // control characters are removed; at most 64 KiB
	Trailers  []string // "Key: value", appended as the last paragraph
	When      time.Time
	Limits    Limits
	// Dirs, of a commit of a combined repository, are the directories of its members. A
	// change elsewhere is refused, and so is a link that leaves its directory.
	Dirs []string
}

// member returns the directory of a member that a path is in, with a slash, and what follows
// it. Without Dirs every path is in "".
func (q *CommitRequest) member(p string) (dir, rest string, ok bool) {
	if len(q.Dirs) == 0 {
		return "", p, true
	}
	dir, rest, ok = strings.Cut(p, "/")
	return dir + "/", rest, ok && slices.Contains(q.Dirs, dir)
}

// Skipped is a path that is not in the commit, and why.
type Skipped struct{ Path, Why string }

// CommitResult is the result of a commit. Each change is in the commit, in Refused, in
// Ignored, or equal to the parent.
type CommitResult struct {
	Hash    string // empty if Empty is set
	Tree    string
	Empty   bool      // the tree equals the parent's: nothing to commit
	Refused []Skipped // changes that may not be committed
	Ignored []string  // new files that a .gitignore of the tree excludes
}

func (l Limits) withDefaults() Limits {
	l.Files = cmp.Or(l.Files, 20_000)
	l.FileBytes = cmp.Or(l.FileBytes, 50<<20)
	l.Bytes = cmp.Or(l.Bytes, 500<<20)
	return l
}

// check validates the request.
func (q *CommitRequest) check() error {
	if err := git.CheckHash("commit", q.Parent); err != nil {
		return err
	}
	for _, id := range []Identity{q.Author, q.Committer} {
		for _, s := range []string{id.Name, id.Email} {
			if strings.Trim(s, " .,:;\"'") == "" || len(s) > 256 || strings.ContainsAny(s, "<>") || git.Sanitize(s, 256) != s || strings.Contains(s, "\n") {
				return api.Errorf(api.KindInvalid, "commit: %q is not a valid name or email address", git.Sanitize(s, 200))
			}
		}
	}
	if q.When.Unix() <= 0 {
		return api.Errorf(api.KindInvalid, "commit: the time is missing")
	}
	if q.Limits.Files < 0 || q.Limits.FileBytes < 0 || q.Limits.Bytes < 0 {
		return api.Errorf(api.KindInvalid, "commit: a limit is negative")
	}
	for _, t := range q.Trailers {
		key, value, ok := strings.Cut(t, ": ")
		if !ok || !git.IsName(strings.ReplaceAll(key, "-", "")) || strings.TrimSpace(value) == "" || strings.Contains(value, "\n") || git.Sanitize(value, 1024) != value {
			return api.Errorf(api.KindInvalid, "commit: %q is not a trailer (\"Key: value\")", git.Sanitize(t, 200))
		}
	}
	if q.message() == "" {
		return api.Errorf(api.KindInvalid, "commit: the message is empty")
	}
	return nil
}

// object returns the commit as git stores it.
func (q *CommitRequest) object(tree string) []byte {
	by := func(id Identity) string { return fmt.Sprintf("%s <%s> %d +0000", id.Name, id.Email, q.When.Unix()) }
	return fmt.Appendf(nil, "tree %s\nparent %s\nauthor %s\ncommitter %s\n\n%s", tree, q.Parent, by(q.Author), by(q.Committer), q.message())
}

// message returns the commit message with its trailers.
func (q *CommitRequest) message() string {
	m := q.Message
	if len(m) > 64<<10 {
		m = m[:64<<10]
		for !utf8.ValidString(m) && len(m) > 64<<10-4 {
			m = m[:len(m)-1]
		}
	}
	if m = git.Sanitize(m, 64<<10); m == "" {
		return ""
	}
	if len(q.Trailers) > 0 {
		m += "\n\n" + strings.Join(q.Trailers, "\n")
	}
	return m + "\n"
}
