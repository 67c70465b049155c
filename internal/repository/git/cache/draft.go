package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// maxChanges is the maximum number of changes, ignored files included.
const maxChanges = 500_000

// sort divides the changes into refused, ignored and committed ones, and spools the
// contents of the last.
func (d *draft) sort(ctx context.Context, q CommitRequest) error {
	kept := d.possible(q)
	for i, c := range kept {
		// These decide which other files are ignored.
		if path.Base(c.Path) != ".gitignore" || c.Mode == Symlink || c.Size > maxIgnoreBytes {
			continue
		}
		why, err := d.spool(ctx, c, fmt.Sprint("i", i))
		if err != nil {
			return err
		}
		if why != "" {
			d.refuse(c.Path, why)
			d.out(c.Path)
		}
	}
	ignored, err := d.ignored(ctx, kept)
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(c Change) bool {
		_, in := d.final[c.Path]
		if in && ignored[c.Path] {
			d.res.Ignored = append(d.res.Ignored, c.Path)
			d.out(c.Path)
		}
		return !in || ignored[c.Path]
	})
	if n := len(kept) + len(d.gone); n > q.Limits.Files {
		return api.Errorf(api.KindExhausted, "commit: %d files were changed; the maximum is %d", n, q.Limits.Files)
	}
	if err := d.take(ctx, kept, q.Limits); err != nil {
		return err
	}
	return d.links(ctx, q)
}

// possible refuses changes whose path or mode may not be committed.
func (d *draft) possible(q CommitRequest) (kept []Change) {
	named := map[string]bool{}
	for _, c := range q.Changes {
		why := badPath(c.Path)
		_, _, within := q.member(c.Path)
		old, was := d.parent[c.Path]
		base := strings.ToLower(path.Base(c.Path))
		switch {
		case why != "":
		case named[c.Path]:
			why = "the path was named before"
		case !within:
			why = "it is in none of the repositories"
		case old.Mode == Submodule:
			why = "it is a submodule"
		case c.Delete && !was:
			why = "there is no such file to delete"
		case c.Delete:
		case c.Mode != Regular && c.Mode != Executable && c.Mode != Symlink:
			why = "only files and symbolic links can be committed"
		case c.Open == nil || c.Size < 0:
			why = "it has no content"
		case c.Mode == Symlink && (base == ".gitmodules" || base == ".gitattributes" || base == ".gitignore" || base == ".mailmap"):
			why = "a file that git reads may not be a link"
		}
		if why != "" {
			d.refuse(c.Path, why)
			continue
		}
		named[c.Path] = true
		if c.Delete {
			delete(d.final, c.Path)
			d.gone = append(d.gone, c.Path)
			continue
		}
		kept = append(kept, c)
		d.final[c.Path] = Entry{Path: c.Path, Mode: c.Mode, Size: c.Size}
	}
	return kept
}

// take spools the changes that fit the limits and the tree.
func (d *draft) take(ctx context.Context, kept []Change, limits Limits) error {
	dirs := map[string]bool{}
	for p := range d.final {
		for dir := path.Dir(p); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	var total int64
	for i, c := range kept {
		why := ""
		switch {
		case dirs[c.Path]:
			why = "it is a file and a directory at once"
		case c.Mode == Symlink && c.Size > maxPath:
			why = "the target of the link is longer than 4096 bytes"
		case c.Size > limits.FileBytes:
			why = fmt.Sprintf("it has %d bytes; the maximum is %d", c.Size, limits.FileBytes)
		case total+c.Size > limits.Bytes:
			why = fmt.Sprintf("with it the changes exceed %d bytes", limits.Bytes)
		}
		for dir := path.Dir(c.Path); dir != "." && why == ""; dir = path.Dir(dir) {
			if e, ok := d.final[dir]; ok {
				why = map[bool]string{true: "it is inside a submodule", false: "it is below what is a file"}[e.Mode == Submodule]
			}
		}
		if _, done := d.spooled[c.Path]; why == "" && !done {
			var err error
			if why, err = d.spool(ctx, c, fmt.Sprint(i)); err != nil {
				return err
			}
		}
		if why != "" {
			d.refuse(c.Path, why)
			d.out(c.Path)
			continue
		}
		total += c.Size
		d.took = append(d.took, c.Path)
	}
	return nil
}

// spool copies the content of a change, and refuses it if its length differs from Size.
func (d *draft) spool(ctx context.Context, c Change, name string) (why string, err error) {
	if err := ctx.Err(); err != nil {
		return "", api.Errorf(api.KindOf(err), "commit: %w", err)
	}
	in, err := c.Open()
	if err != nil {
		return "it could not be read: " + git.Sanitize(err.Error(), 300), nil
	}
	defer in.Close()
	f, err := os.OpenFile(filepath.Join(d.dir, "files", name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", api.Errorf(api.KindInternal, "commit: %w", err)
	}
	defer f.Close()
	n, err := io.Copy(f, readOnly{io.LimitReader(in, c.Size+1)})
	var bad *readError
	switch {
	case errors.As(err, &bad):
		return "it could not be read: " + git.Sanitize(bad.err.Error(), 300), nil
	case err != nil:
		return "", api.Errorf(api.KindInternal, "commit: %w", err)
	case n != c.Size:
		return fmt.Sprintf("its content does not have the expected %d bytes", c.Size), nil
	}
	d.spooled[c.Path] = name
	return "", nil
}

// readOnly marks errors of the reader, to distinguish them from those of the writer.
type readOnly struct{ r io.Reader }

type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (r readOnly) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && err != io.EOF {
		err = &readError{err}
	}
	return n, err
}

// links refuses symbolic links that lead out of the tree, also through another link that is refused, in whatever order they
// come.
func (d *draft) links(ctx context.Context, q CommitRequest) error {
	var broken error
	target := func(p string) (string, bool) {
		e, ok := d.final[p]
		if !ok || e.Mode != Symlink {
			return "", false
		}
		b, err := d.content(p, maxPath)
		if err != nil && broken == nil {
			broken = err
		}
		return string(b), true
	}
	bad := map[string]string{}
	for _, p := range d.took {
		if d.final[p].Mode != Symlink {
			continue
		}
		to, _ := target(p)
		dir, rest, _ := q.member(p)
		why := badTarget(rest, to, func(at string) (string, bool) { return target(dir + at) })
		if broken != nil {
			return broken
		}
		if why != "" {
			bad[p] = why
		}
	}
	d.took = slices.DeleteFunc(d.took, func(p string) bool {
		why, is := bad[p]
		if is {
			d.refuse(p, why)
			d.out(p)
		}
		return is
	})
	return nil
}

// content returns the content of a path of the new tree, at most max bytes.
func (d *draft) content(p string, max int64) ([]byte, error) {
	e := d.final[p]
	large := e.Size > max // of one that is in no repository yet
	if name, ok := d.spooled[p]; ok && !large {
		return os.ReadFile(filepath.Join(d.dir, "files", name))
	}
	var b []byte
	var err error
	if !large {
		b, large, err = d.read.blob(e.Hash, max)
	}
	if large {
		err = api.Errorf(api.KindExhausted, "%q is larger than the maximum of %d bytes", git.Sanitize(p, 200), max)
	}
	return b, err
}

const (
	maxIgnoreFiles = 2000
	maxIgnoreBytes = 1 << 20 // of one
	ignoreTime     = time.Minute
)

// ignored returns the new files that the .gitignore files of the new tree exclude. Git
// decides, in a work tree that has only the .gitignore files.
func (d *draft) ignored(ctx context.Context, kept []Change) (map[string]bool, error) {
	var ask bytes.Buffer
	for _, c := range kept {
		if _, old := d.parent[c.Path]; !old {
			// Git takes a path that begins with a colon for a pattern.
			ask.WriteString("./" + c.Path + "\x00")
		}
	}
	if ask.Len() == 0 {
		return nil, nil
	}
	if ask.Len() > git.MaxOutput {
		return nil, api.Errorf(api.KindExhausted, "commit: the paths of the new files are longer than %d bytes together", git.MaxOutput)
	}
	tree := filepath.Join(d.dir, "ignore")
	count := 0
	for p, e := range d.final {
		// A parent may have paths that no change may have; ignore them.
		if path.Base(p) != ".gitignore" || e.Mode == Symlink || e.Mode == Submodule || badPath(p) != "" {
			continue
		}
		if count++; count > maxIgnoreFiles {
			return nil, api.Errorf(api.KindExhausted, "commit: the tree has more than %d .gitignore files", maxIgnoreFiles)
		}
		b, err := d.content(p, maxIgnoreBytes)
		if err != nil {
			return nil, err
		}
		// A path that is a file and a directory is refused later.
		name := filepath.Join(tree, filepath.FromSlash(p))
		if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			err = os.WriteFile(name, b, 0o600)
		}
		if err != nil && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.EISDIR) {
			return nil, api.Errorf(api.KindInternal, "commit: %w", err)
		}
	}
	if count == 0 {
		return nil, nil
	}
	// A hostile pattern can take practically forever.
	ctx, stop := context.WithTimeout(ctx, ignoreTime)
	defer stop()
	out, err := d.git.Run(ctx, git.Call{GitDir: d.Repo.dir, Dir: tree, Args: []string{"check-ignore", "--no-index", "-z", "--stdin"}, Stdin: &ask,
		Env: []string{"GIT_LITERAL_PATHSPECS=0", "GIT_WORK_TREE=" + tree, "GIT_INDEX_FILE=" + filepath.Join(d.dir, "no-index")}, Config: []string{"core.bare", "false"}})
	if err != nil && !git.ExitCode(err, 1) {
		return nil, err
	}
	ignored := map[string]bool{}
	for _, p := range strings.Split(string(out), "\x00") {
		if p, ok := strings.CutPrefix(p, "./"); ok {
			ignored[p] = true
		}
	}
	return ignored, nil
}
