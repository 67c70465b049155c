package edit

import (
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

var (
	reSortPlain  = lazyregexp.New(`\.sort\(\)`)
	rePlainCall  = lazyregexp.New(`^(\s*(?:(?:const|let|var)\s+)?(?:[\w$.\[\]]+\s*=\s*|return\s+)?)([\w$.]+\()`)
	reMutableDef = lazyregexp.New(`^(\s*)(?:async\s+)?def\s+\w+\(.*?\b(\w+)(?:\s*:\s*[\w\[\], .]+?)?\s*=\s*(\[\]|\{\}|set\(\))`)
	reAlias      = lazyregexp.New(`^(\s*(?:return\s+|(?:const|let|var)\s+\w+\s*=\s*|[\w.]+\s*=\s*))((?:self|this)\.\w+|\w+)(;?)$`)
	reParseInt   = lazyregexp.New(`\bparseInt\(([^(),]+)\)`)
	reDef        = lazyregexp.New(`^(\s*(?:async\s+)?def\s+\w+\()([^)]*)\)`)
	reDivision   = lazyregexp.New(`([\w$.]+(?:\([^()]*\))?|\([^()]*\))\s*/\s*([\w$.]+|\([^()]*\))`)
)

// idiomEdits correct mistakes that each language invites.
type idiomEdits struct{ *collector }

// idioms are mistakes that each language invites.
func (c idiomEdits) idioms() {
	l := c.l
	switch c.lang() {
	case JavaScript:
		c.replace(1.4, reSortPlain, ".sort((a, b) => a - b)")
		c.replace(2.4, lazyregexp.New(`\(a, b\) => a - b`), "(a, b) => b - a")
		c.replace(2.4, lazyregexp.New(`\(a, b\) => b - a`), "(a, b) => a - b")
		c.replace(2.4, reParseInt, "parseInt($1, 10)")
		c.replace(2.6, reDivision, "Math.floor($0)")
		c.replace(3.6, lazyregexp.New(`\.length\b`), ".length - 1")
		c.replace(3, lazyregexp.New(`\breplace\(`), "replaceAll(")
		if m := reAlias.FindStringSubmatch(l.raw); m != nil {
			c.lines(3.4, 1, "give a copy", m[1]+"[..."+m[2]+"]"+m[3])
			c.lines(3.6, 1, "give a copy", m[1]+"{ ..."+m[2]+" }"+m[3])
		}
		if m := rePlainCall.FindStringSubmatch(l.raw); m != nil && !strings.Contains(l.raw, "await ") && c.async() && !strings.HasPrefix(m[2], "require") {
			c.lines(1.8, 1, "wait for the promise", m[1]+"await "+l.raw[len(m[1]):])
		}
		c.own("this.")
	case Python:
		if m := reAlias.FindStringSubmatch(l.raw); m != nil {
			c.lines(3.4, 1, "give a copy", m[1]+"list("+m[2]+")")
			c.lines(3.6, 1, "give a copy", m[1]+"dict("+m[2]+")")
			c.lines(3.8, 1, "give a copy", m[1]+m[2]+".copy()")
			c.lines(4.8, 1, "", m[1]+"int("+m[2]+")")
			c.lines(4.8, 1, "", m[1]+"str("+m[2]+")")
		}
		if m := reMutableDef.FindStringSubmatch(l.raw); m != nil && c.unit != nil {
			head := strings.Replace(l.raw, m[0], strings.TrimSuffix(m[0], m[3])+"None", 1)
			in := c.bodyIndent()
			c.lines(1.6, 1, "a default is made once for all calls", head, in+"if "+m[2]+" is None:", in+"    "+m[2]+" = "+m[3])
		}
		if m := rePlainCall.FindStringSubmatch(l.raw); m != nil && !strings.Contains(l.raw, "await ") && c.async() {
			c.lines(1.8, 1, "wait for the coroutine", m[1]+"await "+l.raw[len(m[1]):])
		}
		if m := reDef.FindStringSubmatch(l.raw); m != nil && c.unit != nil && c.unit.class != "" && !strings.HasPrefix(m[2], "self") && !strings.HasPrefix(m[2], "cls") && strings.Contains(c.p.output, "positional argument") {
			self := "self"
			if m[2] != "" {
				self += ", "
			}
			c.lines(0.4, 1, "a method's first parameter is self", m[1]+self+l.raw[len(m[1]):])
		}
		c.own("self.")
	case Go:
		if m := reDivision.FindStringSubmatchIndex(l.raw); m != nil {
			a, b := l.raw[m[2]:m[3]], l.raw[m[4]:m[5]]
			c.span(3, m[0], m[1], "float64("+a+") / float64("+b+")")
		}
	}
}

func (c idiomEdits) replace(cost float64, re *lazyregexp.Regexp, with string) {
	if at := re.FindStringSubmatchIndex(c.l.raw); at != nil {
		var out []byte
		out = re.ExpandString(out, strings.ReplaceAll(with, "$0", "${0}"), c.l.raw, at)
		c.span(cost, at[0], at[1], string(out))
	}
}

// async says whether a line stands in an asynchronous function.
func (c idiomEdits) async() bool {
	return c.unit != nil && strings.Contains(c.s.lines[c.unit.from].raw, "async")
}

// own puts the receiver before a name that is a member of the same class.
func (c idiomEdits) own(receiver string) {
	if c.unit == nil || c.unit.class == "" || c.i == c.unit.from {
		return
	}
	for n, t := range c.l.toks {
		if t.kind != word || keywords[t.s] || c.tok(n-1) == "." {
			continue
		}
		for k := range c.s.units {
			if u := &c.s.units[k]; u.class == c.unit.class && u.named(t.s) {
				c.span(2, t.at, t.at, receiver)
				break
			}
		}
		if strings.Contains(c.p.output, "'"+t.s+"' is not defined") || strings.Contains(c.p.output, t.s+" is not defined") {
			c.span(0.6, t.at, t.at, receiver)
		}
	}
}
