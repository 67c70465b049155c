package build

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// source is what one source of a COPY stands for in an upload.
type source struct {
	path string
	dir  bool
	// entries are the file, or what is below the directory.
	entries []entry
}

// match returns what the sources of a COPY stand for. A source is a path below the root, which may
// have the patterns of path.Match.
func (u *upload) match(sources []string) ([]source, error) {
	var out []source
	for _, s := range sources {
		pattern := path.Clean(strings.TrimPrefix(s, "/"))
		if strings.HasPrefix(pattern+"/", "../") {
			return nil, api.Errorf(api.KindInvalid, "source %.200q is outside of the build's files", s)
		}
		if s == "" {
			return nil, api.Errorf(api.KindInvalid, "a source is empty")
		}
		found := map[string]*source{}
		var order []string
		for _, e := range u.entries {
			at, err := covering(pattern, e.Path)
			if err != nil {
				return nil, api.Errorf(api.KindInvalid, "source %.200q: %w", s, err)
			}
			if at == "" {
				continue
			}
			m := found[at]
			if m == nil {
				m = &source{path: at}
				found[at], order = m, append(order, at)
			}
			m.dir = m.dir || e.Dir || e.Path != at
			if e.Path != at || !e.Dir {
				m.entries = append(m.entries, e)
			}
		}
		if len(order) == 0 && (len(sources) == 1 || !strings.ContainsAny(s, "*?[")) { // one of several patterns may match nothing
			return nil, api.Errorf(api.KindNotFound, "source %.200q: no file matches", s).WithHint("paths are relative to the directory of the build, without what .dockerignore lists")
		}
		for _, at := range order {
			out = append(out, *found[at])
		}
	}
	return out, nil
}

// covering returns the beginning of a path that a pattern matches: the path, or a directory above it.
func covering(pattern, name string) (string, error) {
	if pattern == "." {
		return ".", nil
	}
	depth := strings.Count(pattern, "/") + 1
	parts := strings.SplitN(name, "/", depth+1)
	if len(parts) < depth {
		_, err := path.Match(pattern, "")
		return "", err
	}
	at := strings.Join(parts[:depth], "/")
	ok, err := path.Match(pattern, at)
	if !ok || err != nil {
		return "", err
	}
	return at, nil
}

// digest identifies what sources stand for.
func digest(sources []source) string {
	sum := sha256.New()
	for _, s := range sources {
		fmt.Fprintf(sum, "source %q %v\n", s.path, s.dir)
		for _, e := range s.entries {
			fmt.Fprintf(sum, "%q %o %v %q %s\n", e.Path, e.Mode, e.Dir, e.Link, e.SHA256)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// target is where a COPY writes to, and how.
type target struct {
	path, owner string
	mode        *uint32 // nil for that of each file
	unpack      bool    // archives
}

// copyFiles copies sources into the sandbox of a build.
func (m *machine) copyFiles(ctx context.Context, u *upload, sources []source, to target) error {
	dest, err := m.path(ctx, to.path)
	if err != nil {
		return err
	}
	into := strings.HasSuffix(to.path, "/") || path.Base(to.path) == "." || path.Base(to.path) == ".." || len(sources) > 1 || slices.ContainsFunc(sources, func(s source) bool { return s.dir })
	if !into {
		st, err := m.guest.Stat(ctx, m.writer(), dest)
		into = err == nil && st.Type == envd.FileTypeDirectory
	}
	var made []string // what the owner gets
	dirs := map[string]bool{}
	dir := func(p string) error {
		if dirs[p] {
			return nil
		}
		dirs[p] = true
		fresh, err := m.makeDir(ctx, p)
		made = append(made, fresh...)
		return err
	}
	for _, s := range sources {
		if s.dir {
			if err := dir(dest); err != nil {
				return err
			}
		}
		for _, e := range s.entries {
			at := dest
			switch {
			case s.dir && s.path == ".":
				at = path.Join(dest, e.Path)
			case s.dir:
				at = path.Join(dest, strings.TrimPrefix(e.Path, s.path+"/"))
			case into:
				at = path.Join(dest, path.Base(e.Path))
			}
			if e.Dir {
				if err := dir(at); err != nil {
					return err
				}
				continue
			}
			if to.unpack && !s.dir && u.archive(e) {
				if err := dir(dest); err != nil {
					return err
				}
				unpacked, err := m.unpack(ctx, u, e, dest)
				if err != nil {
					return err
				}
				if unpacked {
					continue
				}
			}
			if err := dir(path.Dir(at)); err != nil {
				return err
			}
			perm := fs.FileMode(e.Mode)
			if to.mode != nil {
				perm = fs.FileMode(*to.mode)
			}
			how := envd.Upload{Mode: &perm, Aside: true}
			if e.Link != "" {
				how = envd.Upload{Link: e.Link}
			}
			if err := m.guest.Upload(ctx, m.writer(), at, how, u.content(e)); err != nil {
				return fmt.Errorf("write %.200q: %w", at, envd.APIError(err))
			}
			made = append(made, at)
		}
	}
	return m.chown(ctx, to.owner, made)
}

// unpack unpacks an archive of an ADD inside of the sandbox. False means that it is compressed, but no archive.
func (m *machine) unpack(ctx context.Context, u *upload, e entry, dest string) (bool, error) {
	const file = "/tmp/.hortus-add.tar"
	if err := m.guest.Upload(ctx, m.writer(), file, envd.Upload{}, u.content(e)); err != nil {
		return false, fmt.Errorf("write %.200q: %w", e.Path, envd.APIError(err))
	}
	var last string
	script := "tar -tf \"$0\" >/dev/null || { rm -f \"$0\"; echo none; exit; }; tar -xf \"$0\" -C \"$1\"; c=$?; rm -f \"$0\"; exit $c"
	err := m.run(ctx, api.ExecRequest{Args: []string{"/bin/sh", "-c", script, file, dest}, User: m.writer(), Dir: "/"}, func(line string) { last = line })
	if err != nil {
		return false, fmt.Errorf("unpack %.200q: %w", e.Path, err)
	}
	return last != "none", nil
}

// makeDir makes a directory and those above it, and returns the ones that were missing.
func (m *machine) makeDir(ctx context.Context, dir string) (fresh []string, err error) {
	for at := dir; at != "/"; at = path.Dir(at) {
		if _, err := m.guest.Stat(ctx, m.writer(), at); err == nil {
			break
		}
		fresh = append(fresh, at)
	}
	if len(fresh) > 0 {
		if _, err := m.guest.MakeDir(ctx, m.writer(), dir); err != nil {
			return nil, fmt.Errorf("create directory %.200q: %w", dir, envd.APIError(err))
		}
	}
	return fresh, nil
}

// chown gives files to an owner.
func (m *machine) chown(ctx context.Context, owner string, files []string) error {
	if owner == m.writer() {
		return nil
	}
	if _, err := strconv.Atoi(owner); err == nil {
		owner += ":" + owner // it may have no name
	} else if !strings.Contains(owner, ":") {
		owner += ":" // its group
	}
	for batch := range slices.Chunk(files, 500) {
		args := append([]string{"chown", "-h", owner, "--"}, batch...)
		if err := m.run(ctx, api.ExecRequest{Args: args, User: m.writer(), Dir: "/"}, func(string) {}); err != nil {
			return fmt.Errorf("change the owner of files to %s: %w", owner, err)
		}
	}
	return nil
}

// writer is the user that writes files: root, if the sandbox has it.
func (m *machine) writer() string {
	if slices.Contains(m.row.Identities, "root") {
		return "root"
	}
	return m.row.Identities[0]
}
