package cache

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// draft is a commit in progress: the new tree, and its new objects.
type draft struct {
	*Repo
	dir     string   // temporary
	held    *os.File // the lock of the repository
	read    *objects
	new     *pack
	parent  map[string]Entry
	final   map[string]Entry // the new tree; new files have no hash until hash runs
	spooled map[string]string
	took    []string // paths of changes that are committed, in order
	gone    []string // paths that are removed
	res     CommitResult
}

// draft begins a commit in the repository whose lock is held. Its parent is given by its name. The caller calls end.
func (r *Repo) draft(ctx context.Context, lock *os.File, parent string) (*draft, error) {
	d := &draft{Repo: r, dir: filepath.Join(r.workDir(), "draft"), held: lock, new: newPack(len(parent)), read: r.objects(ctx), spooled: map[string]string{}}
	if err := os.MkdirAll(filepath.Join(d.dir, "files"), 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "commit: %w", err)
	}
	return d, nil
}

// end removes what is temporary.
func (d *draft) end() {
	d.read.close()
	os.RemoveAll(d.workDir())
}

// Commit creates a commit from the parent and the changes, on no branch (see
// [Repo.SetBranch]). Its objects are checked by git's fsck, and added to the repository as
// one pack at the end; after an error nothing was added.
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
	d, err := r.draft(ctx, lock, q.Parent)
	if err != nil {
		return CommitResult{}, err
	}
	defer d.end()
	was, err := d.read.commit(q.Parent)
	if err != nil {
		return CommitResult{}, err
	}
	if d.parent, err = d.read.files(ctx, was); err != nil {
		return CommitResult{}, err
	}
	d.final = maps.Clone(d.parent)
	if err := d.sort(ctx, q); err != nil {
		return CommitResult{}, err
	}
	if err := d.hash(); err != nil {
		return CommitResult{}, err
	}
	if err := d.tree(was); err != nil || d.res.Empty {
		return d.res, err
	}
	err = d.commit(ctx, q)
	return d.res, err
}

// hash adds the spooled contents to the new objects.
func (d *draft) hash() (err error) {
	for _, p := range d.took {
		e := d.final[p]
		if e.Hash, err = d.new.addFile(filepath.Join(d.dir, "files", d.spooled[p])); err != nil {
			return err
		}
		d.final[p] = e
	}
	return nil
}

// tree creates the new tree from the parent's and the changes.
func (d *draft) tree(was string) error {
	changes := make(map[string]Entry, len(d.gone)+len(d.took))
	for _, p := range d.gone {
		changes[p] = Entry{}
	}
	for _, p := range d.took {
		changes[p] = d.final[p]
	}
	tree, err := d.new.replace(d.read, was, changes)
	if tree == "" && err == nil {
		tree, err = d.new.addTree(nil)
	}
	d.res.Tree, d.res.Empty = tree, tree == was
	return err
}

// commit creates the commit, and adds the new objects to the repository.
func (d *draft) commit(ctx context.Context, q CommitRequest) error {
	hash, err := d.new.addData(kindCommit, q.object(d.res.Tree))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(d.dir, "pack"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return api.Errorf(api.KindInternal, "commit: %w", err)
	}
	defer f.Close()
	if err := d.new.write(f, &d.cache.deflate); err != nil {
		return api.Errorf(api.KindInternal, "commit: %w", err)
	}
	return d.Repo.adopt(ctx, f, d.held, hash, &d.res)
}

// adopt adds the objects of a pack to the repository: git checks each of them, and that none is missing, before it names the pack.
func (r *Repo) adopt(ctx context.Context, pack, lock *os.File, hash string, res *CommitResult) error {
	if _, err := pack.Seek(0, 0); err != nil {
		return api.Errorf(api.KindInternal, "commit: %w", err)
	}
	if _, err := r.run(ctx, git.Call{Args: []string{"index-pack", "--strict", "--stdin", "--fix-thin"}, Stdin: pack, Lock: lock}); err != nil {
		r.removeLeftovers()
		var e *api.Error
		if errors.As(err, &e) && e.Kind == api.KindInternal {
			e.Kind = api.KindDenied
		}
		return err
	}
	res.Hash = hash
	r.join(ctx, lock)
	return nil
}

// maxPacks is the number of packs from which on they are joined.
const maxPacks = 50

// join joins small packs if there are many, since each commit adds one, and git looks for each object in all of them. Objects that no
// branch has are kept. It is housekeeping: what fails is tried again after the next commit.
func (r *Repo) join(ctx context.Context, lock *os.File) {
	names, err := os.ReadDir(filepath.Join(r.dir, "objects", "pack"))
	packs := 0
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".pack") {
			packs++
		}
	}
	_, borrows := os.Stat(filepath.Join(r.dir, "objects", "info", "alternates"))
	// Git before 2.41 joins packs of the repositories, too, that a combined one borrows from.
	if err != nil || packs <= maxPacks || borrows == nil {
		return
	}
	if _, err := r.run(ctx, git.Call{Args: []string{"repack", "--geometric=2", "-d", "-q", "--no-write-bitmap-index"}, Lock: lock}); err != nil && r.cache.cfg.Logger != nil {
		r.cache.cfg.Logger.WarnContext(ctx, "join packs", "repository", r.Name(), "err", err)
	}
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
