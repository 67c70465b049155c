package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
)

type sandboxCpCmd struct {
	From string `arg:"" complete:"places" help:"ID:PATH, a local path, or - for stdin."`
	To   string `arg:"" complete:"places" help:"ID:PATH, a local path, or - for stdout."`
	User string `short:"u" enum:"user,root," default:"" placeholder:"NAME" help:"Identity inside: user or root."`
}

// place is one side of a copy. ID is empty for a local path.
type place struct {
	id, path string
}

// parsePlace reads "ID:PATH" or a local path. A local name with a colon is
// written with a slash before it: "./a:b".
func parsePlace(s string) (place, error) {
	id, rest, ok := strings.Cut(s, ":")
	if !ok || id == "" || strings.ContainsAny(id, "/.") {
		if s == "" {
			return place{}, api.Errorf(api.KindInvalid, "a path is empty")
		}
		return place{path: s}, nil
	}
	for _, r := range id {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') {
			return place{}, api.Errorf(api.KindInvalid, "%.40q is no sandbox", id).WithHint("a local path with a colon is written as ./%s", clean(s))
		}
	}
	if rest == "" || strings.ContainsRune(rest, 0) {
		return place{}, api.Errorf(api.KindInvalid, "%.40q names no path in the sandbox", s).WithHint("for example %s:/workspace", id)
	}
	return place{id: id, path: rest}, nil
}

// Bounds of one copy out of a sandbox, which may be lying about what it holds.
const (
	maxCopyBytes   = 64 << 30
	maxCopyEntries = 1_000_000
	maxCopyDepth   = 128
)

// copier does one copy.
type copier struct {
	app     *app
	box     *client.Sandbox
	user    string
	bytes   int64
	entries int
	skipped []string
	execs   []string // files in the sandbox that are to be executable
}

// Run copies files into or out of a sandbox.
func (c *sandboxCpCmd) Run(ctx runContext, a *app) error {
	from, err := parsePlace(c.From)
	if err != nil {
		return err
	}
	to, err := parsePlace(c.To)
	if err != nil {
		return err
	}
	if (from.id == "") == (to.id == "") {
		return api.Errorf(api.KindInvalid, "one side must be ID:PATH, the other a local path").WithHint("hortus sandbox cp ID:/workspace/out.txt .")
	}
	if to.path == "-" && to.id == "" && a.opt.JSON {
		return api.Errorf(api.KindInvalid, "--json and a copy to stdout exclude each other")
	}
	s, err := a.box(ctx, from.id+to.id)
	if err != nil {
		return err
	}
	defer s.Close()
	cp := &copier{app: a, box: s, user: c.User}
	if from.id == "" {
		err = cp.in(ctx, from.path, to.path)
	} else {
		err = cp.out(ctx, from.path, to.path)
	}
	for _, name := range cp.skipped {
		a.note("skipped: %s", name)
	}
	if err != nil {
		return resumable(ctx, s, err)
	}
	if a.opt.JSON {
		return a.json(map[string]int64{"files": int64(cp.entries), "bytes": cp.bytes, "skipped": int64(len(cp.skipped))})
	}
	return nil
}

// count bounds what is copied.
func (c *copier) count(n int64) error {
	c.bytes += n
	c.entries++
	if c.bytes > maxCopyBytes || c.entries > maxCopyEntries {
		return api.Errorf(api.KindExhausted, "the copy is larger than %s or %d files", showSize(maxCopyBytes), maxCopyEntries)
	}
	return nil
}

func (c *copier) skip(name, why string) {
	if len(c.skipped) < 100 {
		c.skipped = append(c.skipped, name+": "+why)
	}
}

// out copies from the sandbox to here.
func (c *copier) out(ctx context.Context, from, to string) error {
	if to == "-" {
		r, _, err := c.box.ReadFile(ctx, c.user, from)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(c.app.env.Stdout, r)
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
		return api.Errorf(api.KindNotFound, "there is no directory %s", to)
	}
	if dir == "" {
		dir = "."
	}
	if !insideName(leaf) {
		return api.Errorf(api.KindInvalid, "%.100q cannot be a file's name here", leaf).WithHint("name the destination: hortus sandbox cp %s:%s ./NAME", c.box.ID(), from)
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
		if !insideName(e.Name) || strings.ContainsAny(e.Name, `/\`) {
			c.skip(fmt.Sprintf("%.100q", e.Name), "not a name that can be kept here")
			continue
		}
		src, dst := path.Join(from, e.Name), to+"/"+e.Name
		switch {
		case e.SymlinkTarget != nil:
			// The guest describes what a link leads to; here it stays a link.
			c.skip(src, "a link")
		case e.Type == envd.FileTypeDirectory:
			err = c.outDir(ctx, src, root, dst, depth+1)
		case e.Type == envd.FileTypeFile:
			err = c.outFile(ctx, src, e, root, dst)
		default:
			c.skip(src, "a special file")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) outFile(ctx context.Context, from string, info *envd.EntryInfo, root *os.Root, to string) error {
	r, _, err := c.box.ReadFile(ctx, c.user, from)
	if err != nil {
		return err
	}
	defer r.Close()
	mode := os.FileMode(0o644)
	if info.Mode&0o100 != 0 {
		mode = 0o755
	}
	counted := &countReader{r: io.LimitReader(r, maxCopyBytes-c.bytes+1)}
	if err := writeInside(root, to, mode, counted); err != nil {
		return fmt.Errorf("copy %s to %s: %w", clean(from), clean(to), err)
	}
	return c.count(counted.n)
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

// insideName says whether a name from elsewhere is one that lies inside a
// directory and can be shown.
func insideName(name string) bool {
	return len(name) <= 4096 && name != "." && filepath.IsLocal(name) && !strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

// in copies from here into the sandbox.
func (c *copier) in(ctx context.Context, from, to string) error {
	if from == "-" {
		r := &countReader{r: c.app.env.Stdin}
		if err := c.box.WriteFile(ctx, c.user, to, r); err != nil {
			return err
		}
		return c.count(r.n)
	}
	st, err := os.Stat(from)
	if err != nil {
		return api.Errorf(api.KindInvalid, "copy from here: %w", err)
	}
	dst := to
	if info, err := c.box.Stat(ctx, c.user, to); err == nil && info.Type == envd.FileTypeDirectory {
		abs, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		dst = path.Join(to, filepath.Base(abs))
	} else if err != nil && api.KindOf(err) != api.KindNotFound {
		return err
	} else if strings.HasSuffix(to, "/") && !st.IsDir() {
		return api.Errorf(api.KindNotFound, "there is no directory %s in sandbox %s", to, c.box.ID())
	}
	if st.IsDir() {
		err = c.inDir(ctx, from, dst)
	} else {
		err = c.inFile(ctx, from, dst, st.Mode())
	}
	return errors.Join(err, c.makeExecutable(ctx))
}

func (c *copier) inDir(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		dst := path.Join(to, filepath.ToSlash(rel))
		switch {
		case d.IsDir():
			return c.box.MakeDir(ctx, c.user, dst)
		case !d.Type().IsRegular():
			c.skip(p, "a link or a special file")
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		return c.inFile(ctx, p, dst, st.Mode())
	})
}

func (c *copier) inFile(ctx context.Context, from, to string, mode os.FileMode) error {
	f, err := os.Open(from)
	if err != nil {
		return api.Errorf(api.KindInvalid, "copy from here: %w", err)
	}
	defer f.Close()
	r := &countReader{r: f}
	if err := c.box.WriteFile(ctx, c.user, to, r); err != nil {
		return err
	}
	if mode&0o111 != 0 {
		c.execs = append(c.execs, to)
	}
	return c.count(r.n)
}

// makeExecutable sets the modes that the files had here; the guest's wire has no
// call for it.
func (c *copier) makeExecutable(ctx context.Context) error {
	for len(c.execs) > 0 {
		n := min(len(c.execs), 200)
		cmd := c.box.Command(ctx, "chmod", append([]string{"+x", "--"}, c.execs[:n]...)...)
		cmd.User = c.user
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make files executable: %w: %s", err, clean(string(out)))
		}
		c.execs = c.execs[n:]
	}
	return nil
}
