package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/localfile"
)

// out copies from the sandbox to here.
func (c *copier) out(ctx context.Context, from, to string) error {
	if to == "-" {
		r, _, err := c.box.ReadFile(ctx, c.user, from)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(c.app.Env.Stdout, r)
		return err
	}
	info, err := c.box.Stat(ctx, c.user, from)
	if err != nil {
		return err
	}
	name := path.Base(path.Clean(from))
	dir, leaf := filepath.Split(filepath.Clean(to))
	if st, err := os.Stat(to); err == nil && st.IsDir() {
		dir, leaf = to, name
	} else if strings.HasSuffix(to, "/") {
		return api.Errorf(api.KindNotFound, "directory %s does not exist", to)
	}
	if dir == "" {
		dir = "."
	}
	if !localfile.ValidPath(leaf) {
		return api.Errorf(api.KindInvalid, "%.100q is not a valid file name on this machine", leaf).WithHint("set the destination: hortus sandbox cp %s:%s ./NAME", c.box.ID(), from)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return api.Errorf(api.KindInvalid, "copy to %s: %w", to, err)
	}
	defer root.Close()
	switch info.Type {
	case envd.FileTypeDirectory:
		return c.outDir(ctx, from, root, leaf, 0)
	case envd.FileTypeFile:
		return c.outFile(ctx, from, info, root, leaf)
	}
	return api.Errorf(api.KindInvalid, "%s:%s is neither a file nor a directory", c.box.ID(), from)
}

func (c *copier) outDir(ctx context.Context, from string, root *os.Root, to string, depth int) error {
	if depth > maxCopyDepth {
		return api.Errorf(api.KindExhausted, "the directories are nested deeper than %d", maxCopyDepth)
	}
	if err := root.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := c.count(0); err != nil {
		return err
	}
	list, err := c.box.ListDir(ctx, c.user, from, 1)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e == nil {
			continue
		}
		// Names are the sandbox's; one that is not plainly a name in this
		// directory is nothing that a file system holds.
		if why := localfile.NameProblem(e.Name); why != "" {
			c.failed.add(path.Join(from, e.Name), why)
			continue
		}
		src, dst, err := path.Join(from, e.Name), to+"/"+e.Name, error(nil)
		switch {
		case e.SymlinkTarget != nil:
			// The guest describes what a link leads to; here it stays a link.
			c.skipped.add(src, "a link")
		case e.Type == envd.FileTypeDirectory:
			err = c.outDir(ctx, src, root, dst, depth+1)
		case e.Type == envd.FileTypeFile:
			err = c.outFile(ctx, src, e, root, dst)
		default:
			c.skipped.add(src, "a special file")
		}
		switch {
		case err == nil:
		case ofEntry(err):
			c.failed.add(src, why(e.Name, err))
		default:
			return err
		}
	}
	return nil
}

func (c *copier) outFile(ctx context.Context, from string, info *envd.EntryInfo, root *os.Root, to string) error {
	// What the sandbox says of the size is only for an early end.
	if info.Size > c.max-c.bytes {
		return c.tooLarge(info.Size)
	}
	r, _, err := c.box.ReadFile(ctx, c.user, from)
	if err != nil {
		return err
	}
	defer r.Close()
	mode := os.FileMode(0o644)
	if info.Mode&0o100 != 0 {
		mode = 0o755
	}
	counted := &countReader{r: io.LimitReader(r, c.max-c.bytes+1)}
	if err := localfile.Write(root, to, mode, counted); err != nil {
		return fmt.Errorf("copy %s to %s: %w", human.Sanitize(from), human.Sanitize(to), err)
	}
	if counted.n > c.max-c.bytes {
		return errors.Join(c.tooLarge(counted.n), root.Remove(to))
	}
	return c.count(counted.n)
}

// tooLarge refuses a file that does not fit into what is left of the copy.
func (c *copier) tooLarge(n int64) error {
	return &api.Error{
		Kind: api.KindExhausted, Err: errTooLarge,
		Message: fmt.Sprintf("the file has %s with its holes, and %s of %s are left for the copy", human.Size(n), human.Size(c.max-c.bytes), human.Size(c.max)),
		Hint:    "raise the limit with --max-size, or leave the file out",
	}
}

// errTooMany ends a copy: what comes after it is as much too many.
var errTooMany = errors.New("the copy has more files and directories than the limit")

var errTooLarge = errors.New("the copy would exceed --max-size")

// ofEntry reports whether an error is one entry's own, so that the copy can continue.
func ofEntry(err error) bool {
	for _, e := range []error{syscall.ENAMETOOLONG, syscall.EISDIR, syscall.ENOTDIR, syscall.EEXIST, syscall.EILSEQ, syscall.EINVAL, localfile.ErrEscapes, errTooLarge} {
		if errors.Is(err, e) {
			return true
		}
	}
	var own *api.Error
	if errors.Is(err, errTooMany) || !errors.As(err, &own) {
		return false // the connection, or this machine's disk
	}
	switch own.Kind {
	case api.KindNotFound, api.KindDenied, api.KindInvalid:
		return true
	case api.KindExhausted: // a directory with too many entries, or too deep
		return true
	}
	return false
}

// why words an entry's error. The guest's wire is UTF-8: it replaces what is not.
func why(name string, err error) string {
	if api.KindOf(err) == api.KindNotFound && strings.ContainsRune(name, utf8.RuneError) {
		return "the name is not valid UTF-8"
	}
	return err.Error()
}

type countReader struct {
	r io.Reader
	n int64
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
