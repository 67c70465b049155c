package edit

import (
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

var (
	reSortPlain  = lazyregexp.New(`\.sort\(\)`)
	rePlainCall  = lazyregexp.New(`^(\s*(?:(?:const|let|var)\s+)?(?:[\w$.\[\]]+\s*=\s*|return\s+)?)([\w$.]+\()`)
	reMutableDef = lazyregexp.New(`^(\s*)(?:async\s+)?def\s+\w+\(.*?\b(\w+)(?:\s*:\s*[\w\[\], .]+?)?\s*=\s*(\[\]|\{\}|set\(\))`)
)

// Edits that correct mistakes that each language invites.

// idioms are mistakes that each language invites.
func (c *collector) idioms() {
	l := c.l
	switch c.lang() {
	case JavaScript:
		if at := reSortPlain.FindStringIndex(l.raw); at != nil {
			c.span(1.4, at[0], at[1], ".sort((a, b) => a - b)")
		}
		if m := rePlainCall.FindStringSubmatch(l.raw); m != nil && !strings.Contains(l.raw, "await ") && c.async() && !strings.HasPrefix(m[2], "require") {
			c.lines(1.8, 1, "wait for the promise", m[1]+"await "+l.raw[len(m[1]):])
		}
		c.own("this.")
	case Python:
		if m := reMutableDef.FindStringSubmatch(l.raw); m != nil && c.unit != nil {
			head := strings.Replace(l.raw, m[0], strings.TrimSuffix(m[0], m[3])+"None", 1)
			in := c.bodyIndent()
			c.lines(1.6, 1, "a default is made once for all calls", head, in+"if "+m[2]+" is None:", in+"    "+m[2]+" = "+m[3])
		}
		if m := rePlainCall.FindStringSubmatch(l.raw); m != nil && !strings.Contains(l.raw, "await ") && c.async() {
			c.lines(1.8, 1, "wait for the coroutine", m[1]+"await "+l.raw[len(m[1]):])
		}
		c.own("self.")
	}
}

// async reports whether a line stands in an asynchronous function.
func (c *collector) async() bool {
	return c.unit != nil && strings.Contains(c.s.lines[c.unit.from].raw, "async")
}

// own puts the receiver before a name that is a member of the same class.
func (c *collector) own(receiver string) {
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
