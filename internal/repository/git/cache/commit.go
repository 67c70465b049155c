package cache

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// draft is a commit in progress: the new tree, and the quarantine directory of its
// objects.
type draft struct {
	*Repo
	dir     string   // the quarantine
	also    *Repo    // where objects of the commit are too; nil for none
	held    *os.File // the lock of the repository
	parent  map[string]Entry
	final   map[string]Entry // the new tree; new files have no hash until hash runs
	spooled map[string]string
	took    []string // paths of changes that are committed, in order
	gone    []string // paths that are removed
	res     CommitResult
}

// Commit creates a commit from the parent and the changes, on no branch (see
// [Repo.SetBranch]). Its objects are created in a quarantine directory, checked by git's
// fsck, and added to the repository as one pack at the end; after an error nothing was
// added.
//
// A path, mode, link or size that may not be committed is refused and listed. New files
// that match a .gitignore of the new tree are excluded and listed; a file that the parent
// has is never ignored. Kinds: KindInvalid for an invalid request, KindExhausted for more
// changes than Limits.Files, KindDenied if git's fsck refuses the result.
func (r *Repo) Commit(ctx context.Context, q CommitRequest) (CommitResult, error) {
	if err := q.check(); err != nil {
		return CommitResult{}, err
	}
	q.Limits = q.Limits.withDefaults()
	if len(q.Changes) > maxChanges {
		return CommitResult{}, api.Errorf(api.KindExhausted, "commit: more than %d files were changed", maxChanges)
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return CommitResult{}, err
	}
	defer lock.Close()
	defer os.RemoveAll(r.workDir())
	d := &draft{Repo: r, dir: filepath.Join(r.workDir(), "draft"), held: lock, parent: map[string]Entry{}, final: map[string]Entry{}, spooled: map[string]string{}}
	for _, sub := range []string{"objects", "files", "ignore"} {
		if err := os.MkdirAll(filepath.Join(d.dir, sub), 0o700); err != nil {
			return CommitResult{}, api.Errorf(api.KindInternal, "commit: %w", err)
		}
	}
	entries, err := r.Files(ctx, q.Parent)
	if err != nil {
		return CommitResult{}, err
	}
	for _, e := range entries {
		d.parent[e.Path], d.final[e.Path] = e, e
	}
	if err := d.sort(ctx, q); err != nil {
		return CommitResult{}, err
	}
	if err := d.hash(ctx); err != nil {
		return CommitResult{}, err
	}
	if err := d.tree(ctx, q.Parent); err != nil || d.res.Empty {
		return d.res, err
	}
	err = d.commit(ctx, q)
	return d.res, err
}

// runInWork runs git in the repository; new objects go to the quarantine.
func (d *draft) runInWork(ctx context.Context, c git.Call) (string, error) {
	c.GitDir, c.Lock = d.Repo.dir, d.held
	alternates := filepath.Join(d.Repo.dir, "objects")
	if d.also != nil {
		alternates += ":" + filepath.Join(d.also.dir, "objects")
	}
	c.Env = append(c.Env, "GIT_OBJECT_DIRECTORY="+filepath.Join(d.dir, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES="+alternates,
		"GIT_INDEX_FILE="+filepath.Join(d.dir, "index"))
	c.Dir = cmp.Or(c.Dir, d.dir)
	out, err := d.git.Run(ctx, c)
	return strings.TrimSpace(string(out)), err
}

// hash writes the spooled contents as objects into the quarantine.
func (d *draft) hash(ctx context.Context) error {
	var names strings.Builder
	for _, p := range d.took {
		names.WriteString(d.spooled[p] + "\n")
	}
	if names.Len() == 0 {
		return nil
	}
	out, err := d.runInWork(ctx, git.Call{Args: []string{"hash-object", "-w", "--no-filters", "--stdin-paths"}, Dir: filepath.Join(d.dir, "files"), Stdin: strings.NewReader(names.String())})
	if err != nil {
		return err
	}
	hashes := strings.Fields(out)
	if len(hashes) != len(d.took) {
		return api.Errorf(api.KindInternal, "git hash-object answered %d of %d files", len(hashes), len(d.took))
	}
	for i, p := range d.took {
		if !git.IsHash(hashes[i]) {
			return api.Errorf(api.KindInternal, "git hash-object printed unexpected output")
		}
		e := d.final[p]
		e.Hash = hashes[i]
		d.final[p] = e
	}
	return nil
}

// tree creates the new tree from the parent's and the changes.
func (d *draft) tree(ctx context.Context, parent string) error {
	if _, err := d.runInWork(ctx, git.Call{Args: []string{"read-tree", "--end-of-options", parent}}); err != nil {
		return err
	}
	var info bytes.Buffer
	// Removals come first, so that a file can replace a directory.
	for _, p := range d.gone {
		fmt.Fprintf(&info, "0 %s\t%s\x00", strings.Repeat("0", len(parent)), p)
	}
	for _, p := range d.took {
		fmt.Fprintf(&info, "%s %s\t%s\x00", d.final[p].Mode, d.final[p].Hash, p)
	}
	if _, err := d.runInWork(ctx, git.Call{Args: []string{"update-index", "-z", "--index-info"}, Stdin: &info}); err != nil {
		return err
	}
	tree, err := d.runInWork(ctx, git.Call{Args: []string{"write-tree"}})
	if err != nil {
		return err
	}
	was, err := d.runInWork(ctx, git.Call{Args: []string{"rev-parse", "--verify", "--end-of-options", parent + "^{tree}"}})
	if err != nil {
		return err
	}
	d.res.Tree, d.res.Empty = tree, tree == was
	return nil
}

// commit creates the commit, lets git check the new objects, and adds them.
func (d *draft) commit(ctx context.Context, q CommitRequest) error {
	at := strconv.FormatInt(q.When.Unix(), 10) + " +0000"
	hash, err := d.runInWork(ctx, git.Call{Args: []string{"commit-tree", d.res.Tree, "-p", q.Parent, "-F", "-"}, Stdin: strings.NewReader(q.message()), Env: []string{
		"GIT_AUTHOR_NAME=" + q.Author.Name, "GIT_AUTHOR_EMAIL=" + q.Author.Email, "GIT_AUTHOR_DATE=@" + at,
		"GIT_COMMITTER_NAME=" + q.Committer.Name, "GIT_COMMITTER_EMAIL=" + q.Committer.Email, "GIT_COMMITTER_DATE=@" + at}})
	if err != nil {
		return err
	}
	if !git.IsHash(hash) {
		return api.Errorf(api.KindInternal, "git commit-tree printed unexpected output")
	}
	pack := filepath.Join(d.dir, "pack")
	f, err := os.OpenFile(pack, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return api.Errorf(api.KindInternal, "commit: %w", err)
	}
	defer f.Close()
	if _, err := d.runInWork(ctx, git.Call{Args: []string{"pack-objects", "--quiet", "--revs", "--stdout"}, Stdin: strings.NewReader(hash + "\n^" + q.Parent + "\n"), Stdout: f, Max: 1 << 40}); err != nil {
		return err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return api.Errorf(api.KindInternal, "commit: %w", err)
	}
	// The objects leave the quarantine: git checks each of them, and that none is
	// missing, before it names the pack.
	if _, err := d.run(ctx, git.Call{Args: []string{"index-pack", "--strict", "--stdin", "--fix-thin"}, Stdin: f, Lock: d.held}); err != nil {
		d.removeLeftovers()
		var e *api.Error
		if errors.As(err, &e) && e.Kind == api.KindInternal {
			e.Kind = api.KindDenied
		}
		return err
	}
	d.res.Hash = hash
	return nil
}

// refuse lists a change that is not committed.
func (d *draft) refuse(p, why string) {
	if len(p) > maxPath {
		p = p[:maxPath]
	}
	d.res.Refused = append(d.res.Refused, Skipped{strings.ToValidUTF8(p, "?"), why})
}

// out reverts a change.
func (d *draft) out(p string) {
	if was, ok := d.parent[p]; ok {
		d.final[p] = was
	} else {
		delete(d.final, p)
	}
	delete(d.spooled, p)
}
