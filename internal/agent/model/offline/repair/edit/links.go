package edit

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

var reExportList = lazyregexp.New(`^(\s*(?:module\.)?exports\s*=\s*\{|\s*export\s*\{)(.*)`)

// maxAbsent bounds how many names without a meaning are looked after, maxSpelt how
// many uses of one.
const (
	maxAbsent = 8
	maxSpelt  = 20
)

// Edits that connect a use with its definition in another place or file.

// links repairs what one file wants of another: an export or an import that is
// missing, a name that is spelt differently there.
func (c *collector) links() {
	out := c.p.output
	var absent []string
	for _, re := range []*lazyregexp.Regexp{reNoExport, reAbsent, reNameError, reUnboundName, reNoAttr, reKeyword, reUndefGo} {
		for _, m := range re.FindAllStringSubmatch(out, 12) {
			absent = append(absent, m[1:]...)
		}
	}
	for _, m := range reNoImport.FindAllStringSubmatch(out, 12) {
		absent = append(absent, m[1], m[4])
		c.imported(m[1])
	}
	slices.Sort(absent)
	absent = slices.DeleteFunc(slices.Compact(absent), func(s string) bool { return s == "" || len(s) > 64 })
	for _, name := range absent[:min(len(absent), maxAbsent)] {
		c.export(name)
		c.imports(name)
		c.spelling(name)
		c.defined(name)
		c.member0(name)
	}
}

var reUnboundName = lazyregexp.New(`UnboundLocalError: (?:cannot access )?local variable '(\w+)'|Cannot access '(\w+)' before initialization`)

// defined changes a name that is used without a meaning to what is defined nearby
// under another name: a variable, a parameter, something that is imported.
func (c *collector) defined(name string) {
	for _, s := range c.p.sources {
		if !s.uses(name) && !c.p.called[name] {
			continue
		}
		for i := range s.lines {
			l := &s.lines[i]
			c.on(s, i, -1)
			imports := l.first() == "import" || l.first() == "from" || l.first() == "export" || strings.Contains(l.raw, "require(") || strings.Contains(l.raw, "exports")
			near := c.unit != nil && c.unit.fn && s.mentions(c.unit, name)
			if !imports && !near {
				continue
			}
			for n, t := range l.toks {
				if t.kind != word || t.s == name || keywords[t.s] || c.tok(n-1) == "." || c.tok(n-1) == "def" || c.tok(n-1) == "func" || c.tok(n-1) == "function" {
					continue
				}
				next := c.tok(n + 1)
				cost := 1 + 0.4*float64(Distance(t.s, name))
				switch {
				case imports:
					if cost > 2 {
						cost = 1.8
					}
				case next == "=" || next == ":=" || next == "in" || next == "of":
				case i == c.unit.from && (next == "," || next == ")" || next == ":" || next == "=" || s.lang == Go):
				case next == "," && (l.assigns() || l.first() == "for"):
				default:
					continue
				}
				c.token(cost, n, name)
			}
		}
	}
}

// mentions reports whether a unit uses a name.
func (s *source) mentions(u *unit, name string) bool { return slices.Contains(s.words(u), name) }

// member0 adds to an object a member that it is requested and has not: where its
// constructor sets another one, or none.
func (c *collector) member0(name string) {
	for _, s := range c.p.sources {
		for k := range s.units {
			u := &s.units[k]
			if u.class == "" || !u.named("__init__") && !u.named("constructor") {
				continue
			}
			self, end, last := "self.", "", u.to
			if s.lang == JavaScript {
				self, end, last = "this.", ";", u.to-1
			}
			c.on(s, last, -1)
			c.unit = u
			values := []string{"[]", "{}", "0", "None", "''"}
			if s.lang == JavaScript {
				values = []string{"[]", "{}", "0", "null", "new Map()", "''"}
			}
			if slices.Contains(c.variables(), name) {
				values = []string{name}
			}
			for j, v := range values {
				c.insertAfter(1+0.1*float64(j), c.bodyIndent()+self+name+" = "+v+end)
			}
			for i := u.from + 1; i <= last; i++ {
				c.on(s, i, -1)
				for n, t := range c.l.toks {
					if t.kind == word && c.tok(n-1) == "." && c.tok(n+1) == "=" && t.s != name {
						c.token(1.2+0.3*float64(Distance(t.s, name)), n, name)
					}
				}
			}
		}
	}
}

// on makes a line the current one, for an error that names it.
func (c *collector) on(s *source, i int, base float64) {
	c.s, c.i, c.l, c.base, c.unit = s, i, &s.lines[i], base, nil
	if n := s.at(i); n >= 0 {
		c.unit = &s.units[n]
	}
}

// export adds a name to what a file of JavaScript gives, where it defines it.
func (c *collector) export(name string) {
	for _, s := range c.p.sources {
		if s.lang != JavaScript || !s.defines(name) {
			continue
		}
		for i := range s.lines {
			raw := s.lines[i].raw
			if m := reExportList.FindStringSubmatch(raw); m != nil {
				c.on(s, i, -1)
				if strings.TrimSpace(m[2]) == "" {
					c.insertAfter(0, "  "+name+",")
				} else {
					c.lines(0, 1, "export "+name, m[1]+" "+name+","+m[2])
				}
			}
			if m := reFunction.FindStringSubmatch(raw); m != nil && m[1] == name && !strings.Contains(raw, "export") {
				c.on(s, i, -1)
				c.lines(0.5, 1, "export "+name, "export "+strings.TrimLeft(raw, " "))
			}
		}
		c.on(s, len(s.lines)-1, -1)
		c.put(Edit{Path: s.path, From: len(s.lines), To: len(s.lines) - 1, Lines: []string{"module.exports." + name + " = " + name + ";"}, Why: "export " + name, cost: 0.5})
	}
}

// defines reports whether a file holds a definition of a name outside of classes.
func (s *source) defines(name string) bool {
	for i := range s.units {
		if u := &s.units[i]; u.class == "" && u.named(name) {
			return true
		}
	}
	return slices.ContainsFunc(s.lines, func(l line) bool {
		return strings.HasPrefix(l.raw, "class "+name) || strings.HasPrefix(l.raw, "export class "+name)
	})
}

// imports adds an import of a name to the files of JavaScript that use it without one.
func (c *collector) imports(name string) {
	for _, s := range c.p.sources {
		if s.lang != JavaScript || !s.uses(name) || s.defines(name) {
			continue
		}
		for _, from := range c.p.sources {
			if from == s || from.lang != s.lang || !from.defines(name) {
				continue
			}
			c.require(s, from, name)
		}
	}
}

func (s *source) uses(name string) bool {
	return slices.ContainsFunc(s.lines, func(l line) bool {
		return slices.ContainsFunc(l.toks, func(t token) bool { return t.kind == word && t.s == name })
	})
}

func (c *collector) require(s, from *source, name string) {
	rel := relative(path.Dir(s.path), from.path)
	at, esm := 0, false
	for i := range s.lines {
		raw := s.lines[i].raw
		esm = esm || strings.HasPrefix(raw, "import ") || strings.HasPrefix(raw, "export ")
		if (strings.Contains(raw, rel+"'") || strings.Contains(raw, rel+`"`) || strings.Contains(raw, strings.TrimSuffix(rel, ".js")+"'")) && strings.Contains(raw, "{") {
			c.on(s, i, -1)
			c.lines(0, 1, "import "+name, strings.Replace(raw, "{", "{ "+name+",", 1))
		}
		if strings.Contains(raw, "require(") && s.lines[i].depth == 0 || strings.HasPrefix(raw, "import ") || strings.Contains(raw, "use strict") {
			at = i + 1
		}
	}
	l := "const { " + name + " } = require('" + rel + "');"
	if esm {
		l = "import { " + name + " } from '" + rel + "';"
	}
	c.put(Edit{Path: s.path, From: at + 1, To: at, Lines: []string{l}, Why: "import " + name, cost: -0.5})
}

// relative names a file from a directory as JavaScript does.
func relative(dir, file string) string {
	up := ""
	for dir != "." && !strings.HasPrefix(file, dir+"/") {
		up, dir = "../"+up, path.Dir(dir)
	}
	if dir != "." {
		file = strings.TrimPrefix(file, dir+"/")
	}
	if up == "" {
		up = "./"
	}
	return up + file
}

// spelling replaces a name that nothing means by the nearest one: where it is
// used, and where it is defined under another name than it is requested.
func (c *collector) spelling(name string) {
	used, count := false, 0
	for _, s := range c.p.sources {
		for i := range s.lines {
			l := &s.lines[i]
			for _, t := range l.toks {
				if t.kind == word && t.s == name {
					used = true
					if count++; count <= maxSpelt {
						c.on(s, i, -1)
						c.rename(name, `\b`)
					}
				}
			}
		}
	}
	if used && !c.p.called[name] {
		return
	}
	// Tests ask for it; the source defines it under a name that is nearly the same.
	for _, s := range c.p.sources {
		for i := range s.units {
			u := &s.units[i]
			if own := u.names0(); own != "" && own != name && Distance(own, name) <= 2 {
				c.on(s, u.from, -1)
				c.lines(0.2, 1, own+" is called "+name, regexp.MustCompile(`\b`+regexp.QuoteMeta(own)+`\b`).ReplaceAllString(c.l.raw, name))
			}
		}
	}
}

// imported replaces a name that is imported and that nobody defines by those that
// are defined.
func (c *collector) imported(name string) {
	if name == "" {
		return
	}
	var all []string
	for _, s := range c.p.sources {
		for i := range s.lines {
			if l := &s.lines[i]; (l.first() == "class" || l.first() == "def") && l.indent() == "" && len(l.toks) > 1 && len(all) < 24 {
				all = append(all, l.toks[1].s)
			}
		}
	}
	for _, s := range c.p.sources {
		for i := range s.lines {
			l := &s.lines[i]
			for n, t := range l.toks {
				if t.s != name || t.kind != word || l.first() != "from" {
					continue
				}
				c.on(s, i, -1)
				for k, to := range all {
					c.token(1.2+0.02*float64(k), n, to)
				}
			}
		}
	}
}
