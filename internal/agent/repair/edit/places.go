package edit

import (
	"slices"
	"strings"
)

// placeEdits change bounds, arguments, slices and conditions.
type placeEdits struct{ *collector }

// offset puts the one that a bound lacks behind the operand that ends at token n.
func (c placeEdits) offset(n int) {
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

func (c placeEdits) bracketOf(n int) string {
	if o := c.open(n); o >= 0 {
		return c.tok(o)
	}
	return ""
}

// callOf is the name of the call that token n is an argument of.
func (c placeEdits) callOf(n int) string {
	if o := c.open(n); o > 0 && c.tok(o) == "(" {
		return c.tok(o - 1)
	}
	return ""
}

// leftOperator is the operator before the operand that ends at token n.
func (c placeEdits) leftOperator(n int) string {
	if a := c.left(n + 1); a > 0 {
		return c.tok(a - 1)
	}
	return ""
}

// arguments changes the list that begins at token n: two swapped, one left out,
// a slice turned around.
func (c placeEdits) arguments(n int) {
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
		c.span(4.6, list[0][0], list[1][0], "")
		for k := 1; k < len(list); k++ {
			c.span(4.4, list[k-1][1], list[k][1], "")
		}
	}
	if c.tok(n) == "[" && c.lang() != JavaScript {
		c.slice(n, end)
	}
	if bounds[c.tok(n-1)] && len(list) == 1 {
		c.span(3, list[0][0], list[0][0], "1, ")
		c.span(3.4, list[0][0], list[0][0], "0, ")
	}
	if call := c.tok(n - 1); (call == "sorted" || call == "sort") && c.lang() == Python && !strings.Contains(raw[c.l.toks[n].at:c.l.toks[end].at], "reverse") {
		with := ", reverse=True"
		if len(list) == 0 {
			with = "reverse=True"
		}
		c.span(2.8, c.l.toks[end].at, c.l.toks[end].at, with)
	}
}

// split gives the byte ranges of the arguments between tokens n and end.
func (c placeEdits) split(n, end int) [][2]int {
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

// slice turns the bounds of a slice around and leaves one out.
func (c placeEdits) slice(n, end int) {
	depth, colon := 0, -1
	for k := n + 1; k < end; k++ {
		switch t := c.l.toks[k]; {
		case t.kind != op:
		case t.s == "(" || t.s == "[":
			depth++
		case t.s == ")" || t.s == "]":
			depth--
		case t.s == ":" && depth == 0:
			colon = k
		}
	}
	l := c.l.toks
	if colon < 0 || c.l.raw == "" {
		return
	}
	a, b := c.l.raw[l[n].end():l[colon].at], c.l.raw[l[colon].end():l[end].at]
	in := func(cost float64, s string) { c.span(cost, l[n].end(), l[end].at, s) }
	if a == "" != (b == "") {
		in(2.6, b+":"+a)
	}
	if a != "" && b != "" {
		in(3, a+":")
		in(3, ":"+b)
	}
	if a == "" {
		in(3, "1:"+b)
	}
	if b == "" && c.lang() == Python {
		in(3, a+":-1")
	}
	if b == "" && c.lang() == Python && a == "" {
		in(2.8, "::-1")
	}
}

// conditions negates what a line asks.
func (c placeEdits) conditions() {
	l := c.l
	n := 0
	if l.first() == "}" || l.first() == "return" {
		n = 1
	}
	if c.tok(n) == "else" {
		n++
	}
	switch c.lang() {
	case Python:
		head := c.tok(0)
		if head != "if" && head != "elif" && head != "while" && head != "return" || len(l.toks) < 2 {
			break
		}
		a, b := l.toks[1].at, l.toks[len(l.toks)-1].end()
		if l.last() == ":" {
			b = l.toks[len(l.toks)-1].at
		}
		cond := l.raw[a:b]
		if head != "return" {
			c.span(2.8, a, b, "not ("+cond+")")
			if len(l.toks) <= 6 {
				c.span(2.6, a, b, "not "+cond)
			}
			c.span(5.8, a, b, "False")
			c.span(5.8, a, b, "True")
		} else if len(l.toks) >= 2 {
			c.span(3.4, a, b, "not "+cond)
			c.span(4.6, a, b, "-"+cond)
			c.span(4.9, a, b, "abs("+cond+")")
		}
	case JavaScript:
		if head := c.tok(n); head == "if" || head == "while" || n > 0 && c.tok(n) == "if" {
			if c.tok(n+1) == "(" {
				if end := c.match(n + 1); end > 0 {
					a, b := l.toks[n+1].end(), l.toks[end].at
					c.span(2.8, a, b, "!("+l.raw[a:b]+")")
					c.span(5.8, a, b, "false")
					c.span(5.8, a, b, "true")
				}
			}
		}
		if c.tok(0) == "return" && len(l.toks) > 1 {
			a, b := l.toks[1].at, l.toks[len(l.toks)-1].end()
			if l.last() == ";" {
				b = l.toks[len(l.toks)-1].at
			}
			c.span(3.6, a, b, "!("+l.raw[a:b]+")")
			c.span(4.8, a, b, "-("+l.raw[a:b]+")")
		}
	case Go:
		if head := c.tok(n); (head == "if" || head == "for") && l.last() == "{" && len(l.toks) > n+2 {
			a, b := l.toks[n+1].at, l.toks[len(l.toks)-1].at
			for k := n; k < len(l.toks); k++ {
				if c.tok(k) == ";" {
					a = l.toks[min(k+1, len(l.toks)-1)].at
				}
			}
			if cond := strings.TrimSpace(l.raw[a:b]); cond != "" && head == "if" {
				c.span(2.8, a, b, "!("+cond+") ")
			}
		}
		if c.tok(0) == "return" && len(l.toks) > 1 && !strings.Contains(l.raw, ",") {
			a := l.toks[1].at
			b := l.toks[len(l.toks)-1].end()
			c.span(3.6, a, b, "!("+l.raw[a:b]+")")
			c.span(4.8, a, b, "-("+l.raw[a:b]+")")
		}
	}
}
