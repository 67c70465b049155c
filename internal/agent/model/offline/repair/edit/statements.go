package edit

import (
	"strings"
)

// Edits that move, add and copy lines.

// statements moves, adds and copies lines.
func (c *collector) statements() {
	l, u := c.l, c.unit
	c.blocks()
	if u == nil || l.depth != c.depthOf(u) && c.lang() == Python || l.quote != "" {
		return
	}
	plain := !keywords[l.first()] || l.first() == "continue" || l.first() == "break" || l.first() == "this" || l.first() == "await" || l.first() == "del"
	whole := l.after == l.depth && l.last() != "{" && l.first() != "}" && l.last() != ":"
	if plain && whole && c.i != u.from {
		c.returns()
	}
	if !u.fn || c.i == u.from {
		return
	}
	if whole {
		if next := c.next(); next > 0 && next <= u.to {
			n := &c.s.lines[next]
			if n.after == n.depth && n.depth == l.depth && n.indent() == l.indent() && next == c.i+1 && n.last() != "{" && n.last() != ":" {
				c.lines(4.4, 2, "swap two lines", n.raw, l.raw)
			}
		}
		c.shift()
		c.copies()
	}
}

// depthOf is the depth of brackets of a unit's statements in Python.
func (c *collector) depthOf(u *unit) int { return c.s.lines[u.from].depth }

// next is the next line with code, or -1.
func (c *collector) next() int {
	for j := c.i + 1; j < len(c.s.lines); j++ {
		if len(c.s.lines[j].toks) > 0 {
			return j
		}
	}
	return -1
}

func (c *collector) prev() int {
	for j := c.i - 1; j >= 0; j-- {
		if len(c.s.lines[j].toks) > 0 {
			return j
		}
	}
	return -1
}

// returns makes the value of a line the function's: a return was forgotten.
func (c *collector) returns() {
	u, l := c.unit, c.l
	if !u.fn || keywords[l.first()] && l.first() != "await" && l.first() != "this" {
		return
	}
	if !l.assigns() {
		c.lines(2.4, 1, "", l.indent()+"return "+strings.TrimLeft(l.raw, " \t"))
	}
	last := c.i == u.to || c.lang() != Python && c.i == u.to-1
	if n := c.next(); c.lang() == Python && (n < 0 || n > u.to) {
		last = true
	}
	if !last {
		return
	}
	end := ""
	if strings.HasSuffix(l.raw, ";") {
		end = ";"
	}
	own := c.vars
	for k := len(own) - 1; k >= 0; k-- {
		c.insertAfter(2.8+0.1*float64(len(own)-k), c.bodyIndent()+"return "+own[k]+end)
	}
}

// bodyIndent is the indentation of a function's own statements.
func (c *collector) bodyIndent() string {
	for j := c.unit.from + 1; j <= c.unit.to; j++ {
		if l := &c.s.lines[j]; len(l.toks) > 0 && l.depth <= c.s.lines[c.unit.from].after {
			return l.indent()
		}
	}
	return c.l.indent()
}

func (c *collector) insertAfter(cost float64, line string) {
	c.put(Edit{Path: c.s.path, From: c.i + 2, To: c.i + 1, Lines: []string{line}, Why: "add a line", cost: c.base + cost})
}

// shift moves a line of Python into the block before it.
func (c *collector) shift() {
	if c.lang() != Python {
		return
	}
	in := c.l.indent()
	body := strings.TrimLeft(c.l.raw, " \t")
	if p := c.prev(); p > c.unit.from && len(c.s.lines[p].indent()) > len(in) {
		c.lines(3.4, 1, "move the line into the block", c.s.lines[p].indent()+body)
	}
}

// maxCopies bounds how many lines of a file are tried behind each line.
const maxCopies = 14

// copies puts lines that stand in the same class or file behind this one: what
// one place forgets, another one often does.
func (c *collector) copies() {
	if len(c.l.toks) < 2 || c.l.first() == "return" || c.l.first() == "raise" || c.l.first() == "throw" {
		return
	}
	count := 0
	for i := range c.s.lines {
		o := &c.s.lines[i]
		n := c.s.at(i)
		if i == c.i || n < 0 || count >= maxCopies || len(o.toks) < 3 || o.after != o.depth || o.quote != "" {
			continue
		}
		u := &c.s.units[n]
		body := strings.TrimLeft(o.raw, " \t")
		if !u.fn || u.class != c.unit.class || i == u.from || keywords[o.first()] && o.first() != "this" && o.first() != "del" || o.last() == "{" || o.last() == ":" || o.last() == "," || len(body) > 80 {
			continue
		}
		count++
		c.insertAfter(7, c.l.indent()+body)
	}
}

// assigns reports whether a line is an assignment, outside of all brackets.
func (l *line) assigns() bool {
	depth := 0
	for _, t := range l.toks {
		if t.kind != op {
			continue
		}
		switch t.s {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case "==", "===", "!=", "!==", "<=", ">=", "=>":
		default:
			if depth == 0 && strings.HasSuffix(t.s, "=") {
				return true
			}
		}
	}
	return false
}

// blocks moves a line of Python to where its block is: an else to its if, a
// statement back into its function.
func (c *collector) blocks() {
	if c.lang() != Python || c.l.quote != "" || c.l.depth > 0 {
		return
	}
	in, body := c.l.indent(), strings.TrimLeft(c.l.raw, " \t")
	p := c.prev()
	if p < 0 {
		return
	}
	deeper := len(c.s.lines[p].indent()) > len(in)
	head := c.l.first() == "else" || c.l.first() == "elif" || c.l.first() == "except" || c.l.first() == "finally"
	if head && deeper || deeper && (c.unit == nil || !c.unit.fn || c.l.last() == ":") {
		c.lines(2.6, 1, "move the line into the block", in+"    "+body)
	}
}
