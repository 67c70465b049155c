package filerule

import (
	"path"
	"strings"

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
