package cache

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git"
)

// CheckoutOptions are the options of [Repo.Checkout].
type CheckoutOptions struct {
	Branch string // branch to check out, without refs/heads/ (default "main")
	Depth  int    // maximum number of commits of history; 0 means all

	MaxFiles int   // maximum number of files (default 200,000)
	MaxBytes int64 // maximum size of all files (default 4 GiB)

	Files *filerule.Policy // which files are off limits; nil for none
}

// CheckoutResult describes what Checkout wrote.
type CheckoutResult struct {
	Files      int     // without submodules
	Bytes      int64   // of their contents
	Submodules []Entry // empty directories in the work tree
	OffLimits  int     // files of the commit that were left out
}

// Checkout writes a commit into dir, which must be empty (or missing) and private: the
// files, byte for byte as in the commit, and an independent .git. That has the history of
// the commit, one branch and a matching index, and no remote, hook or link to the cache.
//
// No filter and no line ending of .gitattributes converts a file. .git/info/attributes
// disables conversion in the work tree too, so that changes compare with the commit.
// Symbolic links are written unchanged.
//
// Files that are off limits are left out, of the history too: if a commit of it has one, its
// commits are made again without them, and so have other hashes.
//
// KindConflict if dir is not empty, KindExhausted beyond the limits, KindDenied for a tree
// that git refuses to write. After an error, dir may have a part.
func (r *Repo) Checkout(ctx context.Context, commit, dir string, opt CheckoutOptions) (CheckoutResult, error) {
	var res CheckoutResult
	opt.Branch = cmp.Or(opt.Branch, "main")
	opt.MaxFiles = cmp.Or(opt.MaxFiles, 200_000)
	opt.MaxBytes = cmp.Or(opt.MaxBytes, 4<<30)
	if opt.Depth < 0 || opt.MaxFiles < 0 || opt.MaxBytes < 0 {
		return res, api.Errorf(api.KindInvalid, "checkout: a limit is negative")
	}
	if !filepath.IsAbs(dir) {
		return res, api.Errorf(api.KindInvalid, "checkout: %q is not an absolute path", dir)
	}
	if err := r.git.CheckBranch(ctx, opt.Branch); err != nil {
		return res, err
	}
	entries, err := r.files(ctx, commit, opt.MaxFiles, opt.MaxBytes)
	if err != nil {
		return res, err
	}
	entries, res.OffLimits = opt.leftOut(entries)
	for _, e := range entries {
		if e.Mode == Submodule {
			res.Submodules = append(res.Submodules, e)
			continue
		}
		res.Files++
		res.Bytes += e.Size
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return res, api.Errorf(api.KindInternal, "checkout: %w", err)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		return res, api.Errorf(api.KindConflict, "checkout: %s is not an empty directory", dir)
	}
	return res, r.write(ctx, commit, dir, opt)
}

// write creates the repository in dir and its work tree.
func (r *Repo) write(ctx context.Context, commit, dir string, opt CheckoutOptions) error {
	dot := filepath.Join(dir, ".git")
	format := "sha1"
	if len(commit) == 64 {
		format = "sha256"
	}
	// Name the directory in every call, so that git finds no other repository.
	in := func(c git.Call) error {
		c.GitDir, c.Dir = dot, dir
		c.Env = append(c.Env, "GIT_WORK_TREE="+dir)
		_, err := r.git.Run(ctx, c)
		return err
	}
	if err := r.initCheckout(ctx, dot, format, opt.Branch); err != nil {
		return err
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--update-shallow", "--update-head-ok"}
	if opt.Depth > 0 {
		fetch = append(fetch, "--depth="+strconv.Itoa(opt.Depth))
	}
	fetch = append(fetch, "--end-of-options", r.dir, commit+":refs/heads/"+opt.Branch)
	// The cache's objects were checked when they were fetched.
	if err := in(git.Call{Args: fetch, Env: []string{git.AllowProtocol("file")}, Config: []string{"protocol.file.allow", "always", "fetch.fsckObjects", "false", "transfer.fsckObjects", "false"}}); err != nil {
		return err
	}
	commit, err := r.leaveOut(ctx, commit, dot, format, opt)
	if err != nil {
		return err
	}
	info := filepath.Join(dot, "info")
	err = os.MkdirAll(info, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(info, "attributes"), []byte("# Files are as the commit has them: nothing is converted.\n* -text !eol -ident -filter !working-tree-encoding\n"), 0o644)
	}
	if err != nil {
		return api.Errorf(api.KindInternal, "checkout: %w", err)
	}
	if err := in(git.Call{Args: []string{"read-tree", "--reset", "-u", "--no-recurse-submodules", "--end-of-options", commit}}); err != nil {
		var e *api.Error
		if errors.As(err, &e) && e.Kind == api.KindInternal {
			e.Kind = api.KindDenied
		}
		return err
	}
	return removeFetchFiles(dot)
}

// removeFetchFiles removes files of the fetch from a new .git.
func removeFetchFiles(dot string) error {
	for _, name := range []string{"FETCH_HEAD", "ORIG_HEAD", "logs", "branches", "hooks"} {
		if err := os.RemoveAll(filepath.Join(dot, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return api.Errorf(api.KindInternal, "checkout: %w", err)
		}
	}
	return nil
}
