package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/history"
)

// maxHistory bounds what git prints about a history, in bytes.
const maxHistory = 1 << 34

// leaveOut replaces the repository in dot, to which a commit was fetched, by one whose history
// never had the files that are off limits. None of their contents is in it, unless another file
// has the same. It returns the commit to check out, which is the fetched one if there was nothing
// to leave out.
func (r *Repo) leaveOut(ctx context.Context, commit, dot, format string, opt CheckoutOptions) (string, error) {
	if !opt.Files.Hides() {
		return commit, nil
	}
	if found, err := r.anyOffLimits(ctx, commit, dot, opt); err != nil || !found {
		return commit, err
	}
	aside, err := os.MkdirTemp(filepath.Dir(filepath.Dir(dot)), ".hortus-history-")
	if err != nil {
		return "", api.Errorf(api.KindInternal, "checkout: %w", err)
	}
	defer os.RemoveAll(aside)
	whole := filepath.Join(aside, "whole")
	if err := os.Rename(dot, whole); err != nil {
		return "", api.Errorf(api.KindInternal, "checkout: %w", err)
	}
	if err := r.initCheckout(ctx, dot, format, opt.Branch); err != nil {
		return "", err
	}
	alternates := filepath.Join(dot, "objects", "info", "alternates")
	err = os.MkdirAll(filepath.Dir(alternates), 0o755)
	if err == nil {
		err = os.WriteFile(alternates, []byte(filepath.Join(whole, "objects")+"\n"), 0o600)
	}
	if err != nil {
		return "", api.Errorf(api.KindInternal, "checkout: %w", err)
	}
	if err := r.copyHistory(ctx, whole, dot, opt); err != nil {
		return "", err
	}
	// The pack has what the new commits refer to, and nothing else of the whole repository.
	if _, err := r.git.Run(ctx, git.Call{GitDir: dot, Dir: aside, Args: []string{"repack", "-a", "-d", "-q"}}); err != nil {
		return "", err
	}
	if err := os.Remove(alternates); err != nil {
		return "", api.Errorf(api.KindInternal, "checkout: %w", err)
	}
	head, err := r.git.Line(ctx, git.Call{GitDir: dot, Args: []string{"rev-parse", "--verify", "--end-of-options", "refs/heads/" + opt.Branch}})
	if err != nil {
		return "", err
	}
	return head, r.sameButOffLimits(ctx, commit, head, dot, opt)
}

// anyOffLimits reports whether a commit of the history has a file that is off limits.
func (r *Repo) anyOffLimits(ctx context.Context, commit, dot string, opt CheckoutOptions) (bool, error) {
	commits, err := r.git.Run(ctx, git.Call{GitDir: dot, Args: []string{"rev-list", "--end-of-options", commit}})
	if err != nil {
		return false, err
	}
	paths := &pathWriter{see: func(p string) bool { return opt.Files.OffLimits(p) != "" }}
	_, err = r.git.Run(ctx, git.Call{GitDir: dot, Stdin: bytes.NewReader(commits), Stdout: paths, Max: maxHistory,
		Args: []string{"diff-tree", "--stdin", "-r", "-m", "-z", "--root", "--no-commit-id", "--no-renames", "--name-only"}})
	if err == nil && len(paths.rest) > 0 {
		err = api.Errorf(api.KindInternal, "git diff-tree printed incomplete output")
	}
	return paths.found, err
}

// pathWriter looks at paths that end with NUL.
type pathWriter struct {
	rest  []byte
	see   func(string) bool
	found bool
}

func (w *pathWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		p, rest, ok := bytes.Cut(w.rest, []byte{0})
		if !ok {
			return len(b), nil
		}
		w.found = w.found || w.see(string(p))
		w.rest = rest
	}
}

// copyHistory copies the commits of a branch without the files that are off limits.
func (r *Repo) copyHistory(ctx context.Context, from, to string, opt CheckoutOptions) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	exported, export := io.Pipe()
	imported, imports := io.Pipe()
	errs := make(chan error, 2)
	go func() {
		_, err := r.git.Run(ctx, git.Call{GitDir: from, Dir: filepath.Dir(from), Stdout: export, Max: maxHistory,
			Args: []string{"fast-export", "--no-data", "--use-done-feature", "--reencode=no", "--signed-tags=strip", "refs/heads/" + opt.Branch}})
		export.CloseWithError(err)
		errs <- err
	}()
	go func() {
		_, err := history.Filter(imports, exported, func(p string) bool { return opt.Files.OffLimits(p) != "" })
		imports.CloseWithError(err)
		exported.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		errs <- err
	}()
	_, err := r.git.Run(ctx, git.Call{GitDir: to, Dir: filepath.Dir(from), Stdin: imported,
		Args: []string{"fast-import", "--quiet", "--force", "--done", "--date-format=raw-permissive"}})
	imported.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if err != nil {
		stop()
	}
	all := []error{err, <-errs, <-errs}
	for _, err := range all {
		// The first cause is that of who did not merely lose the other end.
		if err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, context.Canceled) {
			return cannotLeaveOut(err)
		}
	}
	if err := errors.Join(all...); err != nil {
		return cannotLeaveOut(err)
	}
	return nil
}

func cannotLeaveOut(err error) error {
	return api.Errorf(api.KindOf(err), "the files that are off limits cannot be left out of the history: %w", err).
		WithHint("if nothing in the repository is secret, add the exception --off-limits '!**'")
}

// sameButOffLimits returns an error if a commit in dot has not exactly the files of another
// without those that are off limits.
func (r *Repo) sameButOffLimits(ctx context.Context, commit, head, dot string, opt CheckoutOptions) error {
	want, err := r.files(ctx, commit, opt.MaxFiles, opt.MaxBytes)
	if err != nil {
		return err
	}
	out := &listing{maxFiles: opt.MaxFiles, maxBytes: opt.MaxBytes, stop: func(error) {}}
	if _, err := r.git.Run(ctx, git.Call{GitDir: dot, Args: []string{"ls-tree", "-r", "-l", "-z", "--full-tree", "--end-of-options", head}, Stdout: out, Max: maxHistory}); err != nil {
		return err
	}
	if out.err != nil {
		return out.err
	}
	n := 0
	for _, e := range want {
		if opt.Files.OffLimits(e.Path) != "" {
			continue
		}
		if n >= len(out.entries) || out.entries[n] != e {
			return api.Errorf(api.KindInternal, "checkout: %q differs without the files that are off limits", git.Sanitize(e.Path, 200))
		}
		n++
	}
	if n != len(out.entries) {
		return api.Errorf(api.KindInternal, "checkout: there are %d files instead of %d without those that are off limits", len(out.entries), n)
	}
	return nil
}

// initCheckout creates an empty repository for a checkout.
func (r *Repo) initCheckout(ctx context.Context, dot, format, branch string) error {
	dir := filepath.Dir(dot)
	in := func(args ...string) error {
		_, err := r.git.Run(ctx, git.Call{GitDir: dot, Dir: dir, Args: args, Env: []string{"GIT_WORK_TREE=" + dir}})
		return err
	}
	if err := in("init", "--quiet", "--template=", "--initial-branch="+branch, "--object-format="+format); err != nil {
		return err
	}
	// Git stores the path of the work tree, which must not become known in the sandbox.
	if err := in("config", "--unset-all", "core.worktree"); err != nil && !git.ExitCode(err, 5) {
		return err
	}
	return nil
}

// leftOut removes the files that are off limits from a list.
func (o CheckoutOptions) leftOut(entries []Entry) (kept []Entry, n int) {
	for _, e := range entries {
		if o.Files.OffLimits(e.Path) != "" {
			n++
			continue
		}
		kept = append(kept, e)
	}
	return kept, n
}
