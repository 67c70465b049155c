package filerule

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
)

// Policy is a compiled api.FilePolicy. The nil policy allows everything.
type Policy struct {
	offLimits, readOnly, writable list
}

// Compile checks and compiles a policy.
func Compile(p api.FilePolicy) (*Policy, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &Policy{offLimits: compile(p.OffLimits), readOnly: compile(p.ReadOnly), writable: compile(p.Writable)}, nil
}

// OffLimits returns the glob by which a file is off limits, "" if it is not. The path is relative
// to the root of the repository, clean and slash-separated.
func (p *Policy) OffLimits(path string) string {
	if p == nil {
		return ""
	}
	return p.offLimits.match(path)
}

// ReadOnly returns why a file cannot be changed, "" if it can. A file that is off limits may not
// be read-only.
func (p *Policy) ReadOnly(path string) string {
	if p == nil {
		return ""
	}
	if g := p.readOnly.match(path); g != "" {
		return "read-only by the rule " + g
	}
	if len(p.writable) > 0 && p.writable.match(path) == "" {
		return "not matched by a writable rule"
	}
	return ""
}

// Hides reports whether the policy can make any file off limits.
func (p *Policy) Hides() bool { return p != nil && len(p.offLimits) > 0 }

// Restricts reports whether the policy can make any file read-only.
func (p *Policy) Restricts() bool { return p != nil && len(p.readOnly)+len(p.writable) > 0 }

// Refuse returns why a change of a file may not be taken, "" if it may.
func (p *Policy) Refuse(path string) string {
	if g := p.OffLimits(path); g != "" {
		return "it is off limits by the rule " + g
	}
	if why := p.ReadOnly(path); why != "" {
		return "it is " + why
	}
	return ""
}

// glob is one compiled glob.
type glob struct {
	text    string
	except  bool     // it begins with "!"
	dirOnly bool     // it ends with a slash
	parts   []string // components; "**" is any number of them
}

type list []glob

func compile(globs []string) list {
	var l list
	for _, text := range globs {
		g := glob{text: text}
		text, g.except = strings.CutPrefix(text, "!")
		text, g.dirOnly = strings.CutSuffix(text, "/")
		rooted := strings.Contains(text, "/")
		g.parts = strings.Split(strings.TrimPrefix(text, "/"), "/")
		if !rooted && g.parts[0] != "**" {
			g.parts = append([]string{"**"}, g.parts...)
		}
		l = append(l, g)
	}
	return l
}

// match returns the last glob that matches, "" if it is an exception or there is none.
func (l list) match(p string) string {
	parts := strings.Split(p, "/")
	for i := len(l) - 1; i >= 0; i-- {
		if !l[i].match(parts) {
			continue
		}
		if l[i].except {
			return ""
		}
		return l[i].text
	}
	return ""
}

// match reports whether the glob matches a path or a directory above it.
func (g glob) match(parts []string) bool {
	// at[i] says that the first i components of the path are matched by the part of the glob
	// that was looked at.
	at := make([]bool, len(parts)+1)
	at[0] = true
	for k, part := range g.parts {
		next := make([]bool, len(parts)+1)
		if part == "**" {
			seen := false
			for i := range next {
				next[i] = seen || at[i] && k < len(g.parts)-1 // at the end it is at least one
				seen = seen || at[i]
			}
		} else {
			for i, p := range parts {
				if at[i] {
					next[i+1] = component(part, p)
				}
			}
		}
		at = next
	}
	for i, ok := range at {
		if ok && i > 0 && (i < len(parts) || !g.dirOnly) {
			return true
		}
	}
	return false
}

// component matches one component.
func component(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

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

// ForWorkspace returns a file policy for a workspace with several repositories: a glob that names a path from the root of
// the repository counts for each, and from the root of the workspace too.
func ForWorkspace(p api.FilePolicy, dirs []string) api.FilePolicy {
	return eachGlob(p, func(except, glob string) []string {
		out := []string{except + glob}
		if rooted(glob) {
			for _, dir := range dirs {
				out = append(out, except+dir+"/"+strings.TrimPrefix(glob, "/"))
			}
		}
		return out
	})
}

// ForRepository returns a file policy for one of several repositories, with globs relative to it.
func ForRepository(p api.FilePolicy, dir string) api.FilePolicy {
	return eachGlob(p, func(except, glob string) []string {
		out := []string{except + glob}
		if rest, mine := strings.CutPrefix(strings.TrimPrefix(glob, "/"), dir+"/"); mine && rest != "" {
			out = append(out, except+"/"+rest)
		}
		return out
	})
}

// rooted reports whether a glob is a path from the root.
func rooted(glob string) bool { return strings.Contains(strings.TrimSuffix(glob, "/"), "/") }

// eachGlob replaces each glob of a policy in its place.
func eachGlob(p api.FilePolicy, f func(except, glob string) []string) api.FilePolicy {
	replace := func(globs []string) (out []string) {
		for _, g := range globs {
			except := ""
			if rest, ok := strings.CutPrefix(g, "!"); ok {
				except, g = "!", rest
			}
			out = append(out, f(except, g)...)
		}
		return out
	}
	return api.FilePolicy{OffLimits: replace(p.OffLimits), ReadOnly: replace(p.ReadOnly), Writable: replace(p.Writable)}
}

// Overlap reports whether a file could match two globs, neither of which is an exception. It is true in doubt: a set of characters, such
// as "[a-z]", counts as any character. A glob that does not end with a slash is treated as one of files: what is below a directory that it
// matches does not count.
func Overlap(a, b string) bool {
	g := compile([]string{a, b})
	for i := range g {
		if g[i].dirOnly {
			g[i].parts = append(g[i].parts, "**")
		}
	}
	x, y := g[0].parts, g[1].parts
	return common(len(x), len(y), func(i, j int) (any, other, both bool) {
		return i < len(x) && x[i] == "**", j < len(y) && y[j] == "**", i < len(x) && j < len(y) && sameComponent(x[i], y[j])
	})
}

// sameComponent reports whether a name could match two components of globs.
func sameComponent(a, b string) bool {
	x, y := letters(a), letters(b)
	return common(len(x), len(y), func(i, j int) (any, other, both bool) {
		both = i < len(x) && j < len(y) && (x[i] == y[j] || x[i] == "?" || y[j] == "?")
		return i < len(x) && x[i] == "*", j < len(y) && y[j] == "*", both
	})
}

// letters divides a component of a glob: "*" is any letters, "?" one.
func letters(part string) (out []string) {
	for part != "" {
		r, size := utf8.DecodeRuneInString(part)
		if r == '[' {
			if end := strings.IndexByte(part[1:], ']'); end > 0 {
				out, part = append(out, "?"), part[end+2:]
				continue
			}
		}
		if r == '\\' && len(part) > 1 {
			part = part[1:]
			_, size = utf8.DecodeRuneInString(part)
			out, part = append(out, `\`+part[:size]), part[size:]
			continue
		}
		out, part = append(out, part[:size]), part[size:]
	}
	return out
}

// common reports whether two sequences of n and m patterns match a common text. at says of the i-th and the j-th pattern whether they
// match any number of things, and whether they match the same one.
func common(n, m int, at func(i, j int) (any, other, both bool)) bool {
	reached := make([]bool, m+2) // of the row below, the last one first
	for i := n; i >= 0; i-- {
		row := make([]bool, m+2)
		for j := m; j >= 0; j-- {
			any, other, both := at(i, j)
			row[j] = i == n && j == m || any && (reached[j] || j < m && row[j+1]) || other && (row[j+1] || i < n && reached[j]) || both && reached[j+1]
		}
		reached = row
	}
	return reached[0]
}
