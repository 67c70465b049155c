package edit

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

var (
	reCompile   = lazyregexp.New(`(?m)^(?:vet: )?((?:[\w@.+-]*/)*[\w@.+-]+\.go):(\d+):(?:\d+:)? (.*)$`)
	reUnusedImp = lazyregexp.New(`^"([^"]+)" imported(?: as \w+)? and not used`)
	reUnusedVar = lazyregexp.New(`^declared and not used: (\w+)`)
	reUndefined = lazyregexp.New(`^undefined: (?:(\w+)\.)?(\w+)`)
	reNoMember  = lazyregexp.New(`^(\S+) undefined \(type \S+ has no field or method (\w+)(?:, but does have (?:field|method) (\w+))?`)
	reCannotUse = lazyregexp.New(`^cannot use (.+?) \((?:.*?)(?:of type|constant) .*\) as (\S+) value in`)
	reMismatch  = lazyregexp.New(`^invalid operation: (.+) \(mismatched types (\S+) and (\S+)\)`)
	reMissing   = lazyregexp.New(`^missing return`)
	reNoExport  = lazyregexp.New(`TypeError: (?:\(0 , )?(?:[\w$]+\.)*([\w$]+)\)? is not a (?:function|constructor)|does not provide an export named '([\w$]+)'`)
	reAbsent    = lazyregexp.New(`ReferenceError: ([\w$]+) is not defined`)
	reNameError = lazyregexp.New(`NameError: name '(\w+)' is not defined`)
	reNoImport  = lazyregexp.New(`ImportError: cannot import name '(\w+)' from '([\w.]+)'|AttributeError: module '([\w.]+)' has no attribute '(\w+)'`)
	reKeyword   = lazyregexp.New(`got an unexpected keyword argument '(\w+)'`)
	reUndefGo   = lazyregexp.New(`(?m): undefined: (\w+)$|undefined \(type \S+ has no field or method (\w+)`)
	reNoAttr    = lazyregexp.New(`AttributeError: '\w+' object has no attribute '(\w+)'|TypeError: (?:[\w$\[\]]+\.)*([\w$]+) is not a function`)
)

// Edits that do what the messages of the Go compiler ask for.

// compile collects the edits that an error's own words ask for.
func (c *collector) compile() {
	for _, m := range reCompile.FindAllStringSubmatch(c.p.output, 20) {
		n, _ := strconv.Atoi(m[2])
		for _, s := range c.p.sources {
			if path.Base(s.path) == path.Base(m[1]) && n >= 1 && n <= len(s.lines) {
				c.s, c.i, c.l, c.base = s, n-1, &s.lines[n-1], -1
				c.unit = nil
				if k := s.at(n - 1); k >= 0 {
					c.unit = &s.units[k]
				}
				c.message(m[3])
			}
		}
	}
	c.links()
}

// goPackages are the packages of the standard library that go by one name.
var goPackages = strings.Fields("bufio bytes cmp context crypto/sha256 encoding/base64 encoding/hex encoding/json errors fmt hash/fnv io maps math math/big math/bits math/rand net/http net/url os os/exec path path/filepath reflect regexp slices sort strconv strings sync sync/atomic text/tabwriter time unicode unicode/utf8 container/list container/heap")

// message answers one line of the Go compiler.
func (c *collector) message(msg string) {
	raw := c.l.raw
	if m := reUnusedImp.FindStringSubmatch(msg); m != nil {
		c.lines(0, 1, "the import is not used")
		if strings.HasPrefix(strings.TrimSpace(raw), "import ") {
			return
		}
	}
	if m := reUnusedVar.FindStringSubmatch(msg); m != nil {
		c.lines(0.2, 1, "the variable is not used", regexp.MustCompile(`\b`+m[1]+`\b`).ReplaceAllString(raw, "_"))
		c.lines(0.3, 1, "the variable is not used", strings.Replace(regexp.MustCompile(`\b`+m[1]+`\b`).ReplaceAllString(raw, "_"), ":=", "=", 1))
		c.lines(0.4, 1, "the variable is declared once more", strings.Replace(raw, ":=", "=", 1))
		c.lines(1, 1, "the variable is not used")
		c.insertAfter(1.2, c.l.indent()+"_ = "+m[1])
	}
	if m := reUndefined.FindStringSubmatch(msg); m != nil {
		c.undefined(m[1], m[2])
	}
	if m := reNoMember.FindStringSubmatch(msg); m != nil {
		if m[3] != "" {
			c.lines(-0.5, 1, m[2]+" is called "+m[3], regexp.MustCompile(`\.`+m[2]+`\b`).ReplaceAllString(raw, "."+m[3]))
		}
		c.rename(m[2], `\.`)
	}
	if m := reCannotUse.FindStringSubmatch(msg); m != nil && strings.Contains(raw, m[1]) {
		c.lines(0, 1, "convert to "+m[2], strings.Replace(raw, m[1], m[2]+"("+m[1]+")", 1))
		if m[2] == "string" {
			c.lines(0.2, 1, "convert to text", strings.Replace(raw, m[1], "strconv.Itoa("+m[1]+")", 1))
		}
		c.lines(0.4, 1, "take the address", strings.Replace(raw, m[1], "&"+m[1], 1))
		c.lines(0.4, 1, "take what it points to", strings.Replace(raw, m[1], "*"+m[1], 1))
	}
	if m := reMismatch.FindStringSubmatch(msg); m != nil {
		for _, o := range []string{" + ", " - ", " * ", " / ", " < ", " <= ", " > ", " >= ", " == ", " != ", " % "} {
			a, b, ok := strings.Cut(m[1], o)
			if !ok || !strings.Contains(raw, m[1]) {
				continue
			}
			c.lines(0, 1, "convert to "+m[2], strings.Replace(raw, m[1], a+o+m[2]+"("+b+")", 1))
			c.lines(0.1, 1, "convert to "+m[3], strings.Replace(raw, m[1], m[3]+"("+a+")"+o+b, 1))
		}
	}
	if reMissing.MatchString(msg) && c.unit != nil {
		c.unit = &c.s.units[c.s.at(c.i)]
		c.l = &c.s.lines[max(c.i-1, 0)]
		c.i = max(c.i-1, 0)
		for k, v := range append(c.variables(), "nil", "0", "false", `""`, "true") {
			c.insertAfter(0.1*float64(k), "\treturn "+v)
		}
	}
}

// undefined is a name without a meaning: misspelt, or of a package that is not
// imported.
func (c *collector) undefined(pkg, name string) {
	if pkg == "" {
		for _, p := range goPackages {
			if path.Base(p) == name {
				c.importGo(p)
			}
		}
		for _, p := range c.p.ownPackages(name) {
			c.importGo(p)
		}
	}
	prefix := `\b`
	if pkg != "" {
		prefix = `\b` + pkg + `\.`
	}
	c.rename(name, prefix)
	if pkg == "" && strings.Contains(c.l.raw, name+" = ") {
		c.lines(0.3, 1, "declare the variable", strings.Replace(c.l.raw, name+" = ", name+" := ", 1))
	}
}

var rePackage = lazyregexp.New(`(?m)^(?:# |FAIL\t|ok  \t)([\w.-]+(?:/[\w.-]+)*)`)

// ownPackages are the module's packages of a name. What the go command prints
// tells the module's path.
func (p *project) ownPackages(name string) []string {
	module := ""
	for _, m := range rePackage.FindAllStringSubmatch(p.output, 20) {
		for _, s := range p.sources {
			if dir := path.Dir(s.path); s.lang == Go && dir != "." && strings.HasSuffix(m[1], "/"+dir) {
				module = strings.TrimSuffix(m[1], dir)
			}
		}
	}
	var out []string
	for _, s := range p.sources {
		if dir := path.Dir(s.path); module != "" && s.lang == Go && path.Base(dir) == name && !slices.Contains(out, module+dir) {
			out = append(out, module+dir)
		}
	}
	return out
}

func (c *collector) importGo(p string) {
	for i := range c.s.lines {
		raw := c.s.lines[i].raw
		switch {
		case strings.HasPrefix(raw, "import ("):
			c.put(Edit{Path: c.s.path, From: i + 2, To: i + 1, Lines: []string{"\t\"" + p + "\""}, Why: "import " + p, cost: c.base - 0.5})
			return
		case strings.HasPrefix(raw, "import "):
			c.put(Edit{Path: c.s.path, From: i + 1, To: i, Lines: []string{"import \"" + p + "\""}, Why: "import " + p, cost: c.base - 0.5})
			return
		}
	}
	for i := range c.s.lines {
		if c.s.lines[i].first() == "package" {
			c.put(Edit{Path: c.s.path, From: i + 2, To: i + 1, Lines: []string{"", "import \"" + p + "\""}, Why: "import " + p, cost: c.base - 0.5})
			return
		}
	}
}

// rename replaces a misspelt name on the current line, behind a prefix, by the
// nearest names that are used anywhere.
func (c *collector) rename(name, prefix string) {
	re := regexp.MustCompile(`(` + prefix + `)` + regexp.QuoteMeta(name) + `\b`)
	for k, to := range c.p.nearest(name) {
		c.lines(0.1*float64(k), 1, name+" is misspelt; "+to+" is meant", re.ReplaceAllString(c.l.raw, "${1}"+to))
	}
}

// nearest names to a misspelt one, in all sources.
func (p *project) nearest(name string) []string {
	var near []string
	for d := 1; d <= min(3, 1+len(name)/4); d++ {
		for _, s := range append(slices.Clone(p.sources), p.tests...) {
			for i := range s.lines {
				for _, t := range s.lines[i].toks {
					if t.kind == word && !keywords[t.s] && t.s != name && Distance(name, t.s) == d && !slices.Contains(near, t.s) && len(near) < 6 {
						near = append(near, t.s)
					}
				}
			}
		}
	}
	return near
}
