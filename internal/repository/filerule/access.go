package filerule

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/api"
)

// Access says whether a file or a directory with everything in it can be changed, from the entries
// before it on.
type Access struct {
	// Path is relative to the root of the repository, "." for the root itself.
	Path     string
	ReadOnly bool
}

// MaxAccess is the maximum number of entries, and MaxAccessBytes that of the bytes of their paths.
const (
	MaxAccess      = 200
	MaxAccessBytes = 16 << 10
)

// probe stands for the name of a file that does not exist yet. No sensible glob names it.
const probe = "\x02new"

// Access lists what has to be mounted so that the files of a repository, given by their paths, can
// be changed as the policy says. A directory is read-only if a new file with any name would be.
// Directories above something read-only are listed too: as mount points they cannot be renamed.
// Git's own directory stays writable.
//
// The list is empty if everything can be changed. KindInvalid if it would exceed MaxAccess.
func (p *Policy) Access(files []string) ([]Access, error) {
	if !p.Restricts() {
		return nil, nil
	}
	top := &dir{}
	for _, f := range files {
		top.add(strings.Split(f, "/"))
	}
	list, _ := p.visit(top, ".", false)
	if len(list) > 0 && list[0] == (Access{".", true}) {
		list = slices.Insert(list, 1, Access{".git", false})
	}
	bytes := 0
	for _, a := range list {
		bytes += len(a.Path)
	}
	if len(list) > MaxAccess || bytes > MaxAccessBytes {
		return nil, api.Errorf(api.KindInvalid, "the read-only and writable rules need %d mounts with paths of %d bytes; the maximum is %d mounts and %d bytes", len(list), bytes, MaxAccess, MaxAccessBytes).
			WithHint(`use rules for directories, such as "docs/", instead of rules for the names of many files`)
	}
	return list, nil
}

// dir is a directory of a repository.
type dir struct {
	names []string // of files
	dirs  map[string]*dir
}

func (d *dir) add(parts []string) {
	if len(parts) == 1 {
		d.names = append(d.names, parts[0])
		return
	}
	below := d.dirs[parts[0]]
	if below == nil {
		if d.dirs == nil {
			d.dirs = map[string]*dir{}
		}
		below = &dir{}
		d.dirs[parts[0]] = below
	}
	below.add(parts[1:])
}

// visit lists the entries of a directory whose parent is read-only or not, and reports whether one
// of them is read-only.
func (p *Policy) visit(d *dir, at string, readOnly bool) (list []Access, fixed bool) {
	was := readOnly
	readOnly = p.ReadOnly(path.Join(at, probe)) != ""
	slices.Sort(d.names)
	for _, name := range d.names {
		f := path.Join(at, name)
		if is := p.ReadOnly(f) != ""; is != readOnly {
			list = append(list, Access{f, is})
			fixed = fixed || is
		}
	}
	var names []string
	for name := range d.dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		below, has := p.visit(d.dirs[name], path.Join(at, name), readOnly)
		list = append(list, below...)
		fixed = fixed || has
	}
	fixed = fixed || readOnly && !was
	if readOnly != was || fixed && !readOnly && at != "." {
		list = slices.Insert(list, 0, Access{at, readOnly})
	}
	return list, fixed
}

// Fix adds to a list that a directory below Git's own, such as ".git/x/y", cannot be changed.
func Fix(list []Access, dir string) []Access {
	parts := strings.Split(dir, "/")
	for i := range parts[1:] {
		if above := path.Join(parts[:i+1]...); !slices.ContainsFunc(list, func(a Access) bool { return a.Path == above }) {
			list = append(list, Access{above, false})
		}
	}
	return append(list, Access{dir, true})
}
