package edit

import (
	"slices"
	"strings"
)

// Edits that change bounds, swap arguments and negate conditions.

// offset puts the one that a bound lacks behind the operand that ends at token n.
func (c *collector) offset(n int) {
	t := c.l.toks[n]
	if t.kind == op && t.s != ")" && t.s != "]" || t.kind == text || keywords[t.s] {
		return
	}
	next := c.tok(n + 1)
	cost := 0.0
	switch {
	case next == "]" || next == ":" && c.bracketOf(n) == "[":
		cost = 2.8
	case (next == "," || next == ")") && bounds[c.callOf(n)]:
		cost = 2.6
	case slices.Contains([]string{"<", "<=", ">", ">=", "==", "!=", "===", "!=="}, c.leftOperator(n)) && (next == "" || next == ":" || next == "{" || next == ")" || next == ";" || next == "and" || next == "or" || next == "&&" || next == "||"):
		cost = 3.6
	case c.tok(0) == "return" && (next == "" || next == ";" || next == ","):
		cost = 4
	case c.tok(n-1) == "=" && n == len(c.l.toks)-1, c.tok(n-1) == "=" && next == ";":
		cost = 4.2
	case next == ")" || next == ",":
		cost = 5.2
	default:
		return
	}
	if t.kind == number {
		cost += 2
	}
	end := t.end()
	c.span(cost, end, end, " - 1")
	c.span(cost, end, end, " + 1")
}

// bounds are calls whose arguments are counts or positions.
var bounds = set("range slice substring substr islice randint charAt splice fill repeat at make Slice Repeat Fill")

func (c *collector) bracketOf(n int) string {
	if o := c.open(n); o >= 0 {
		return c.tok(o)
	}
	return ""
}

// callOf is the name of the call that token n is an argument of.
func (c *collector) callOf(n int) string {
	if o := c.open(n); o > 0 && c.tok(o) == "(" {
		return c.tok(o - 1)
	}
	return ""
}

// leftOperator is the operator before the operand that ends at token n.
func (c *collector) leftOperator(n int) string {
	if a := c.left(n + 1); a > 0 {
		return c.tok(a - 1)
	}
	return ""
}

// arguments swaps two elements of the list that begins at token n.
func (c *collector) arguments(n int) {
	if b := c.tok(n); c.l.toks[n].kind != op || b != "(" && b != "[" {
		return
	}
	end := c.match(n)
	if end < 0 || end == n+1 {
		return
	}
	list := c.split(n, end)
	raw := c.l.raw
	if len(list) >= 2 && len(list) <= 5 {
		cost := 3.0
		if c.tok(0) == "def" || c.tok(0) == "func" || c.tok(0) == "function" {
			cost = 4.5
		}
		for k := 0; k+1 < len(list); k++ {
			for m := k + 1; m < len(list); m++ {
				a, b := list[k], list[m]
				if first := raw[a[0]:a[1]]; first == "self" || first == "cls" || c.lang() == Python && strings.Contains(raw[b[0]:b[1]], "=") != strings.Contains(first, "=") {
					continue
				}
				c.span(cost+0.3*float64(m-k-1), a[0], b[1], raw[b[0]:b[1]]+raw[a[1]:b[0]]+raw[a[0]:a[1]])
			}
		}
	}
}

// split returns the byte ranges of the arguments between tokens n and end.
func (c *collector) split(n, end int) [][2]int {
	var out [][2]int
	depth, start := 0, n+1
	for k := n + 1; k <= end; k++ {
		t := c.l.toks[k]
		if t.kind == op {
			switch t.s {
			case "(", "[", "{":
				depth++
			case ")", "]", "}":
				depth--
			}
		}
		if k == end || depth == 0 && t.s == "," && t.kind == op {
			if k > start {
				out = append(out, [2]int{c.l.toks[start].at, c.l.toks[k-1].end()})
			}
			start = k + 1
		}
	}
	return out
}

// conditions negates the condition of a line.
func (c *collector) conditions() {
	n, last := 0, len(c.l.toks)-1
	if c.l.first() == "}" {
		n++
	}
	if c.tok(n) == "else" {
		n++
	}
	if head := c.tok(n); head != "if" && head != "elif" && head != "while" || last < n+2 {
		return
	}
	a, b := c.l.toks[n+1].at, c.l.toks[last].at
	switch {
	case c.lang() == Python && c.l.last() == ":":
		c.span(2.8, a, b, "not ("+c.l.raw[a:b]+")")
		if last <= 6 {
			c.span(2.6, a, b, "not "+c.l.raw[a:b])
		}
	case c.lang() == JavaScript && c.tok(n+1) == "(" && c.match(n+1) > 0:
		a, b := c.l.toks[n+1].end(), c.l.toks[c.match(n+1)].at
		c.span(2.8, a, b, "!("+c.l.raw[a:b]+")")
	case c.lang() == Go && c.l.last() == "{":
		for k := n; k < last; k++ {
			if c.tok(k) == ";" {
				a = c.l.toks[k+1].at
			}
		}
		if cond := strings.TrimSpace(c.l.raw[a:b]); cond != "" {
			c.span(2.8, a, b, "!("+cond+") ")
		}
	}
}
