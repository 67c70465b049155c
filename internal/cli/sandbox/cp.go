package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
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
	box     *client.Sandbox
	user    string
	max     int64 // of bytes copied out
	bytes   int64
	entries int
	skipped notes    // what a copy leaves out on purpose: links and special files
	failed  notes    // what should have been copied and was not
	execs   []string // files in the sandbox that are to be executable
}

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
	cp := &copier{app: a, box: s, user: c.User, max: int64(c.Max)}
	if from.id == "" {
		err = cp.in(ctx, from.path, to.path)
	} else {
		err = cp.out(ctx, from.path, to.path)
	}
	cp.skipped.show(a, "skipped")
	cp.failed.show(a, "not copied")
	if err != nil {
		return resumable(ctx, s, userFailure(ctx, s, c.User, err))
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
		return api.Errorf(api.KindNotFound, "directory %s does not exist in sandbox %s", to, c.box.ID())
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
		case !utf8.ValidString(rel):
			c.failed.add(p, "the name is not valid UTF-8")
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return c.box.MakeDir(ctx, c.user, dst)
		case !d.Type().IsRegular():
			c.skipped.add(p, "a link or a special file")
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
			return fmt.Errorf("make files executable: %w: %s", err, human.Sanitize(string(out)))
		}
		c.execs = c.execs[n:]
	}
	return nil
}
