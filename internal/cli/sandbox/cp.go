package sandbox

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
	"syscall"
	"time"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/localfile"
)

type sandboxCpCmd struct {
	From string     `arg:"" complete:"places" help:"ID:PATH, a local path, or - for stdin."`
	To   string     `arg:"" complete:"places" help:"ID:PATH, a local path, or - for stdout."`
	User string     `short:"u" complete:"users" placeholder:"NAME" help:"User inside the sandbox: user, root, or the user of its image (default: user, or that of the image)."`
	Max  flags.Size `name:"max-size" default:"16GiB" placeholder:"SIZE" help:"Maximum size of all files copied out of a sandbox, holes included (default 16GiB)."`
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
			return place{}, api.Errorf(api.KindInvalid, "%.40q is not a sandbox", id).WithHint("write a local path with a colon as ./%s", human.Sanitize(s))
		}
	}
	if rest == "" || strings.ContainsRune(rest, 0) {
		return place{}, api.Errorf(api.KindInvalid, "%.40q has no path in the sandbox", s).WithHint("for example %s:/workspace", id)
	}
	return place{id: id, path: rest}, nil
}

// Bounds of one copy out of a sandbox, which may be lying about what it holds.
const (
	maxCopyEntries = 1_000_000
	maxCopyDepth   = 128
)

// copier does one copy.
type copier struct {
	app     *app.App
	sandbox *client.Sandbox
	user    string
	max     int64 // of bytes copied out
	bytes   int64
	entries int
	skipped notes  // what a copy leaves out on purpose: special files
	failed  notes  // what should have been copied and was not
	links   []link // to be made here once all files are
}

// link is a symbolic link to be made here.
type link struct{ path, target string }

// inside reports whether a link at a path of the tree, both with slashes, leads to something of
// the tree whatever other links are there: ".." stands at the beginning only, where it leaves
// directories that are none.
func inside(at, target string) bool {
	if target == "" || strings.HasPrefix(target, "/") {
		return false
	}
	depth, down := strings.Count(path.Clean(at), "/"), false
	for name := range strings.SplitSeq(target, "/") {
		switch name {
		case "", ".":
		case "..":
			if depth--; down || depth < 0 {
				return false
			}
		default:
			down = true
		}
	}
	return true
}

// leadsOut is why a link is not copied.
const leadsOut = "the link leads out of what is copied"

// maxNotes bounds how many entries of one kind are listed.
const maxNotes = 100

// notes lists entries with a reason.
type notes struct {
	n     int
	lines []string
}

func (l *notes) add(name, why string) {
	if l.n++; l.n <= maxNotes {
		l.lines = append(l.lines, human.Sanitize(name)+": "+why)
	}
}

func (l *notes) show(a *app.App, what string) {
	for _, line := range l.lines {
		a.Note("%s: %s", what, line)
	}
	if l.n > maxNotes {
		a.Note("%s: %d more", what, l.n-maxNotes)
	}
}

// Run copies files into or out of a sandbox.
func (c *sandboxCpCmd) Run(ctx app.Context, a *app.App) error {
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
	if to.path == "-" && to.id == "" && a.Flags.JSON {
		return api.Errorf(api.KindInvalid, "--json and a copy to stdout exclude each other")
	}
	if err := checkUser(c.User); err != nil {
		return err
	}
	s, err := find(ctx, a, from.id+to.id)
	if err != nil {
		return err
	}
	defer s.Close()
	cp := &copier{app: a, sandbox: s, user: c.User, max: int64(c.Max)}
	if from.id == "" {
		err = cp.in(ctx, from.path, to.path)
	} else {
		err = cp.out(ctx, from.path, to.path)
	}
	cp.skipped.show(a, "skipped")
	cp.failed.show(a, "not copied")
	if err != nil {
		return withNext(ctx, s, userFailure(ctx, s, c.User, err))
	}
	if a.Flags.JSON {
		err = a.JSON(map[string]int64{"files": int64(cp.entries), "bytes": cp.bytes, "skipped": int64(cp.skipped.n), "failed": int64(cp.failed.n)})
	}
	if err == nil && cp.failed.n > 0 {
		return api.Errorf(api.KindDenied, "entries that were not copied: %d", cp.failed.n).
			WithHint("see the reasons above; rename the files in the sandbox, or copy an archive: hortus sandbox exec %s -- tar -cSf - PATH", s.ID())
	}
	return err
}

// count bounds what is copied.
func (c *copier) count(n int64) error {
	c.bytes += n
	c.entries++
	if c.entries > maxCopyEntries {
		return fmt.Errorf("%w of %d", errTooMany, maxCopyEntries)
	}
	return nil
}

// in copies from here into the sandbox.
func (c *copier) in(ctx context.Context, from, to string) error {
	if from == "-" {
		r := &countReader{r: c.app.Env.Stdin}
		if err := c.sandbox.Upload(ctx, c.user, to, envd.Upload{Aside: true}, r); err != nil {
			return err
		}
		return c.count(r.n)
	}
	st, err := os.Stat(from)
	if err != nil {
		return api.Errorf(api.KindInvalid, "copy from here: %w", err)
	}
	dst := to
	if info, err := c.sandbox.Stat(ctx, c.user, to); err == nil && info.Type == envd.FileTypeDirectory {
		abs, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		dst = path.Join(to, filepath.Base(abs))
	} else if err != nil && api.KindOf(err) != api.KindNotFound {
		return err
	} else if strings.HasSuffix(to, "/") && !st.IsDir() {
		return api.Errorf(api.KindNotFound, "directory %s does not exist in sandbox %s", to, c.sandbox.ID())
	}
	if st.IsDir() {
		err = c.inDir(ctx, from, dst)
	} else {
		err = c.inFile(ctx, from, dst, st)
	}
	return err
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
		case !utf8.ValidString(rel):
			c.failed.add(p, "the name is not valid UTF-8")
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return c.sandbox.MakeDir(ctx, c.user, dst)
		case d.Type()&fs.ModeSymlink != 0:
			return c.inLink(ctx, p, filepath.ToSlash(rel), dst)
		case !d.Type().IsRegular():
			c.skipped.add(p, "a special file")
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		return c.inFile(ctx, p, dst, st)
	})
}

func (c *copier) inLink(ctx context.Context, from, rel, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	if target = filepath.ToSlash(target); !inside(rel, target) {
		c.failed.add(from, leadsOut)
		return nil
	}
	if err := c.sandbox.Upload(ctx, c.user, to, envd.Upload{Link: target}, strings.NewReader("")); err != nil {
		return err
	}
	return c.count(0)
}

// inFile copies a file with its permissions and time. A failure leaves what was there.
func (c *copier) inFile(ctx context.Context, from, to string, st fs.FileInfo) error {
	f, err := os.Open(from)
	if err != nil {
		return api.Errorf(api.KindInvalid, "copy from here: %w", err)
	}
	defer f.Close()
	r, how := &countReader{r: f}, envd.Upload{Aside: true}
	if st.Mode().IsRegular() {
		mode := st.Mode().Perm()
		how.Mode = &mode
		if t := st.ModTime(); t.Year() >= 1970 && t.Year() <= 2261 {
			how.ModTime = t
		}
	}
	if err := c.sandbox.Upload(ctx, c.user, to, how, r); err != nil {
		return err
	}
	return c.count(r.n)
}

// out copies from the sandbox to here.
func (c *copier) out(ctx context.Context, from, to string) error {
	if to == "-" {
		r, _, err := c.sandbox.ReadFile(ctx, c.user, from)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(c.app.Env.Stdout, r)
		return err
	}
	info, err := c.sandbox.Stat(ctx, c.user, from)
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
		return api.Errorf(api.KindInvalid, "%.100q is not a valid file name on this machine", leaf).WithHint("set the destination: hortus sandbox cp %s:%s ./NAME", c.sandbox.ID(), from)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return api.Errorf(api.KindInvalid, "copy to %s: %w", to, err)
	}
	defer root.Close()
	switch info.Type {
	case envd.FileTypeDirectory:
		top := info.Path
		if info.SymlinkTarget != nil {
			top = *info.SymlinkTarget
		}
		if err := c.outDir(ctx, top, from, root, leaf, 0); err != nil {
			return err
		}
		return c.makeLinks(root)
	case envd.FileTypeFile:
		return c.outFile(ctx, from, info, root, leaf)
	}
	return api.Errorf(api.KindInvalid, "%s:%s is neither a file nor a directory", c.sandbox.ID(), from)
}

// outDir copies a directory below top, which is what is copied.
func (c *copier) outDir(ctx context.Context, top, from string, root *os.Root, to string, depth int) error {
	if depth > maxCopyDepth {
		return api.Errorf(api.KindExhausted, "the directories are nested deeper than %d", maxCopyDepth)
	}
	if err := root.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := c.count(0); err != nil {
		return err
	}
	list, err := c.sandbox.ListDir(ctx, c.user, from, 1)
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
			c.outLink(top, src, *e.SymlinkTarget, dst)
		case e.Type == envd.FileTypeDirectory:
			err = c.outDir(ctx, top, src, root, dst, depth+1)
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

// outLink notes the link src of the tree at top, whose place here is to. The guest says what it
// leads to in the end, as an absolute path, or what it says if that is nothing.
func (c *copier) outLink(top, src, target, to string) {
	_, at, _ := strings.Cut(to, "/") // below the directory here, whatever the guest says of top
	if strings.HasPrefix(target, "/") {
		below, ok := strings.CutPrefix(target, strings.TrimSuffix(top, "/")+"/")
		if ok {
			target = strings.Repeat("../", strings.Count(at, "/")) + below
		}
	}
	for name := range strings.SplitSeq(target, "/") {
		if name != "" && name != "." && name != ".." && localfile.NameProblem(name) != "" {
			c.failed.add(src, "the name in the link cannot be kept here")
			return
		}
	}
	if !inside(at, target) {
		c.failed.add(src, leadsOut)
		return
	}
	if len(c.links) >= maxCopyEntries {
		c.failed.add(src, errTooMany.Error())
		return
	}
	c.links = append(c.links, link{to, target})
}

// makeLinks makes the links of a directory here, after all files: nothing is written through one.
func (c *copier) makeLinks(root *os.Root) error {
	for _, l := range c.links {
		err := plain(root, path.Dir(l.path))
		if err == nil {
			err = root.Remove(l.path)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = root.Symlink(l.target, l.path)
		}
		if err != nil {
			c.failed.add(l.path, err.Error())
			continue
		}
		if err := c.count(0); err != nil {
			return err
		}
	}
	return nil
}

// plain fails if a directory is reached through a link: a link made there would lead elsewhere
// than it was checked for. A sandbox can name a directory that is a link here, of this copy or an earlier one.
func plain(root *os.Root, dir string) error {
	for i := range len(dir) + 1 {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		if fi, err := root.Lstat(dir[:i]); err != nil {
			return err
		} else if !fi.IsDir() {
			return fmt.Errorf("%s: %w", human.Sanitize(dir[:i]), syscall.ENOTDIR)
		}
	}
	return nil
}

func (c *copier) outFile(ctx context.Context, from string, info *envd.EntryInfo, root *os.Root, to string) error {
	// What the sandbox says of the size is only for an early end.
	if info.Size > c.max-c.bytes {
		return c.tooLarge(info.Size)
	}
	r, _, err := c.sandbox.ReadFile(ctx, c.user, from)
	if err != nil {
		return err
	}
	defer r.Close()
	counted := &countReader{r: io.LimitReader(r, c.max-c.bytes+1)}
	mode := os.FileMode(info.Mode) & 0o777
	if err := localfile.Write(root, to, mode, counted); err != nil {
		return fmt.Errorf("copy %s to %s: %w", human.Sanitize(from), human.Sanitize(to), err)
	}
	if counted.n > c.max-c.bytes {
		return errors.Join(c.tooLarge(counted.n), root.Remove(to))
	}
	if t := info.ModifiedTime; t.Year() >= 1970 && t.Year() <= 2261 {
		if err := root.Chtimes(to, time.Time{}, t); err != nil {
			return err
		}
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
