package cache

import (
	"bytes"
	"context"
	"strconv"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
)

// Mode is the mode of an entry of a tree.
type Mode string

const (
	Regular    Mode = "100644"
	Executable Mode = "100755"
	Symlink    Mode = "120000"
	Submodule  Mode = "160000" // a commit of another repository; never followed
)

// Entry is a file of a commit.
type Entry struct {
	Path string // with slashes; untrusted: as in the commit
	Mode Mode
	Hash string // of the blob, or a submodule's commit
	Size int64  // in bytes; of a link: of its target; 0 for a submodule
}

// maxTreeFiles is the maximum number of files of a commit. A small tree can refer to the
// same subtree many times and expand exponentially.
const maxTreeFiles = 1_000_000

// Files lists the files of a commit, sorted by path. KindExhausted for more than a
// million.
func (r *Repo) Files(ctx context.Context, commit string) ([]Entry, error) {
	return r.files(ctx, commit, maxTreeFiles, 1<<62)
}

func (r *Repo) files(ctx context.Context, commit string, maxFiles int, maxBytes int64) ([]Entry, error) {
	if err := git.CheckHash("files", commit); err != nil {
		return nil, err
	}
	name := listedName{r.dir, commit}
	if entries, bytes, ok := r.cache.listed.find(name); ok && len(entries) <= maxFiles && bytes <= maxBytes {
		return entries, nil
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	l := &listing{maxFiles: maxFiles, maxBytes: maxBytes, stop: stop}
	_, err := r.run(ctx, git.Call{Args: []string{"ls-tree", "-r", "-l", "-z", "--full-tree", "--end-of-options", commit}, Stdout: l, Max: 1 << 34})
	if l.err != nil {
		return nil, l.err
	}
	if err == nil && len(l.rest) > 0 {
		err = api.Errorf(api.KindInternal, "git ls-tree printed incomplete output")
	}
	if err == nil {
		r.cache.listed.keep(name, l.entries, l.bytes)
	}
	return l.entries, err
}

// listing parses the output of ls-tree -r -l -z as it arrives, and stops it at a limit.
type listing struct {
	entries  []Entry
	rest     []byte
	bytes    int64
	maxFiles int
	maxBytes int64
	stop     context.CancelCauseFunc
	err      error
}

func (l *listing) Write(b []byte) (int, error) {
	if l.err != nil {
		return len(b), nil
	}
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte{0})
		if !ok {
			if len(l.rest) > 1<<20 {
				l.fail(api.Errorf(api.KindExhausted, "a path of the tree is longer than a megabyte"))
			}
			return len(b), nil
		}
		l.rest = rest
		e, err := parseEntry(line)
		if err != nil {
			l.fail(err)
			return len(b), nil
		}
		l.entries = append(l.entries, e)
		l.bytes += e.Size
		switch {
		case len(l.entries) > l.maxFiles:
			l.fail(api.Errorf(api.KindExhausted, "the tree has more than %d files", l.maxFiles))
		case l.bytes > l.maxBytes:
			l.fail(api.Errorf(api.KindExhausted, "the files of the tree exceed %d bytes together", l.maxBytes))
		}
		if l.err != nil {
			return len(b), nil
		}
	}
}

func (l *listing) fail(err error) {
	l.err = err
	l.stop(err)
}

// parseEntry reads "mode type hash size<tab>path".
func parseEntry(line []byte) (Entry, error) {
	head, path, ok := bytes.Cut(line, []byte{'\t'})
	f := bytes.Fields(head)
	if !ok || len(f) != 4 || len(path) == 0 || !git.IsHash(string(f[2])) {
		return Entry{}, api.Errorf(api.KindInternal, "git ls-tree printed unexpected output: %q", git.Sanitize(string(line), 200))
	}
	e := Entry{Path: string(path), Hash: string(f[2])}
	switch mode := string(f[0]); mode {
	case "100644", "100755", "120000", "160000":
		e.Mode = Mode(mode)
	case "100664": // old versions of git wrote it; git reads it as 100644
		e.Mode = Regular
	default:
		return Entry{}, api.Errorf(api.KindDenied, "%q has the invalid mode %q", git.Sanitize(e.Path, 200), git.Sanitize(mode, 20))
	}
	if e.Mode != Submodule {
		var err error
		if e.Size, err = strconv.ParseInt(string(f[3]), 10, 64); err != nil || e.Size < 0 {
			return Entry{}, api.Errorf(api.KindDenied, "%q: its content is missing in the repository", git.Sanitize(e.Path, 200))
		}
	}
	return e, nil
}

// ReadFile returns the content of a regular file of a commit. KindNotFound if it does not
// exist, KindInvalid for a link or a submodule, KindExhausted if it exceeds max bytes.
func (r *Repo) ReadFile(ctx context.Context, commit, path string, max int64) ([]byte, error) {
	if err := git.CheckHash("read a file", commit); err != nil {
		return nil, err
	}
	if why := badPath(path); why != "" {
		return nil, api.Errorf(api.KindInvalid, "%q: %s", git.Sanitize(path, 200), why)
	}
	out, err := r.run(ctx, git.Call{Args: []string{"ls-tree", "-l", "-z", "--full-tree", "--end-of-options", commit, path}, Max: 1 << 20})
	if err != nil {
		return nil, err
	}
	line, rest, ok := bytes.Cut(out, []byte{0})
	if !ok || len(rest) > 0 || bytes.Contains(line, []byte(" tree ")) {
		return nil, api.Errorf(api.KindNotFound, "the commit has no file %q", git.Sanitize(path, 200))
	}
	e, err := parseEntry(line)
	if err != nil {
		return nil, err
	}
	switch {
	case e.Path != path:
		return nil, api.Errorf(api.KindNotFound, "the commit has no file %q", git.Sanitize(path, 200))
	case e.Mode == Symlink, e.Mode == Submodule:
		return nil, api.Errorf(api.KindInvalid, "%q is a link or a submodule", git.Sanitize(path, 200))
	case e.Size > max:
		return nil, api.Errorf(api.KindExhausted, "%q has %d bytes; the maximum is %d", git.Sanitize(path, 200), e.Size, max)
	}
	return r.blob(ctx, e.Hash, e.Size)
}

// Content returns the content of an entry that [Repo.Files] listed: of a link its target, which is never followed.
// KindInvalid for a submodule, KindExhausted if it exceeds max bytes.
func (r *Repo) Content(ctx context.Context, e Entry, max int64) ([]byte, error) {
	switch {
	case e.Mode == Submodule || !git.IsHash(e.Hash):
		return nil, api.Errorf(api.KindInvalid, "%q has no content", git.Sanitize(e.Path, 200))
	case e.Size > max:
		return nil, api.Errorf(api.KindExhausted, "%q has %d bytes; the maximum is %d", git.Sanitize(e.Path, 200), e.Size, max)
	}
	return r.blob(ctx, e.Hash, e.Size)
}

func (r *Repo) blob(ctx context.Context, hash string, size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil // without a process of git: a change may have thousands of empty files
	}
	return r.run(ctx, git.Call{Args: []string{"cat-file", "blob", hash}, Max: size})
}
