package edit

import "slices"

type swap struct {
	to   string
	cost float64
}

// swaps of one operator by another, the likeliest first.
var swaps = map[string][]swap{
	"<":   {{"<=", 1}, {">", 1.6}, {">=", 2.2}, {"!=", 3.5}, {"==", 3.5}},
	"<=":  {{"<", 1}, {">=", 1.6}, {">", 2.2}, {"==", 3.5}},
	">":   {{">=", 1}, {"<", 1.6}, {"<=", 2.2}, {"!=", 3.5}, {"==", 3.5}},
	">=":  {{">", 1}, {"<=", 1.6}, {"<", 2.2}, {"==", 3.5}},
	"==":  {{"!=", 1.2}, {"<=", 2.5}, {">=", 2.5}, {"<", 3}, {">", 3}},
	"!=":  {{"==", 1.2}, {"<", 3}, {">", 3}},
	"===": {{"!==", 1.2}, {"<=", 2.5}, {">=", 2.5}, {"<", 3.2}, {">", 3.2}},
	"!==": {{"===", 1.2}, {"<", 3}, {">", 3}},
	"+":   {{"-", 1.2}, {"*", 2.6}, {"/", 3.6}},
	"-":   {{"+", 1.2}, {"*", 3.4}, {"/", 3.6}},
	"*":   {{"/", 1.4}, {"+", 2.2}, {"**", 3}, {"-", 3.2}, {"%", 3.6}},
	"/":   {{"*", 1.4}, {"%", 2.4}, {"//", 1.2}, {"-", 3}, {"+", 3.2}},
	"//":  {{"/", 1.2}, {"%", 1.8}, {"*", 2.2}},
	"%":   {{"/", 2}, {"//", 1.8}, {"*", 2.6}},
	"**":  {{"*", 1.4}},
	"+=":  {{"-=", 1.2}, {"=", 1.6}, {"*=", 2.4}},
	"-=":  {{"+=", 1.2}, {"=", 2}},
	"*=":  {{"/=", 1.6}, {"+=", 1.8}, {"=", 2.4}},
	"/=":  {{"*=", 1.6}, {"//=", 1.8}},
	"//=": {{"/=", 1.8}, {"%=", 2.4}, {"*=", 2}},
	"%=":  {{"//=", 2}},
	"=":   {{"+=", 2.6}},
	"&&":  {{"||", 1.2}},
	"||":  {{"&&", 1.2}, {"??", 2.2}},
	"??":  {{"||", 2}},
	"++":  {{"--", 1.6}},
	"--":  {{"++", 1.6}},
	"&":   {{"|", 1.6}, {"^", 2.4}},
	"|":   {{"&", 1.6}, {"^", 2.4}},
	"^":   {{"&", 2}, {"|", 2}, {"**", 2}},
	"<<":  {{">>", 1.4}},
	">>":  {{"<<", 1.4}},
	"|=":  {{"&=", 1.8}},
	"&=":  {{"|=", 1.8}},
	"and": {{"or", 1.2}},
	"or":  {{"and", 1.2}},
	"is":  {{"is not", 1.4}, {"==", 3}},
	"in":  {{"not in", 1.6}},
}

// Edits that replace, negate and remove operators.

// operator replaces, negates or removes the operator at token n.
func (c *collector) operator(n int) {
	t := c.l.toks[n]
	if t.kind != op && t.s != "and" && t.s != "or" && t.s != "is" && t.s != "in" && t.s != "not" {
		return
	}
	unary := n == 0 || c.l.toks[n-1].kind == op && c.tok(n-1) != ")" && c.tok(n-1) != "]" && c.tok(n-1) != "}" || keywords[c.tok(n-1)] && !constants[c.tok(n-1)]
	switch {
	case t.s == "not":
		switch {
		case c.tok(n+1) == "in":
			c.span(1.4, t.at, c.l.toks[n+1].end(), "in")
		case c.tok(n-1) == "is":
			c.span(1.4, c.l.toks[n-1].at, t.end(), "is")
		default:
			c.affirm(n)
		}
		return
	case t.s == "!":
		c.affirm(n)
		return
	case t.s == "is" && c.tok(n+1) == "not", t.s == "in" && (c.tok(0) == "for" || c.tok(n-1) == "not" || c.inFor(n)):
		return
	case t.s == "-" && unary:
		c.remove(1.8, n)
		return
	case unary && t.s != "++" && t.s != "--":
		return
	case t.s == "=" && (c.open(n) >= 0 || c.l.depth > 0 || c.tok(0) == "const" || c.tok(0) == "let" || c.tok(0) == "var" || c.l.depth == 0 && c.unit == nil):
		return
	}
	for _, w := range swaps[t.s] {
		if c.valid(w.to) {
			c.token(w.cost, n, w.to)
		}
	}
	c.operands(n)
}

// inFor reports whether an "in" belongs to a comprehension.
func (c *collector) inFor(n int) bool {
	for k := n - 1; k >= 0 && k >= n-6; k-- {
		if c.tok(k) == "for" {
			return true
		}
	}
	return false
}

// valid reports whether an operator exists in the language.
func (c *collector) valid(o string) bool {
	switch o {
	case "//", "//=":
		return c.lang() == Python
	case "**":
		return c.lang() != Go
	case "??", "===", "!==":
		return c.lang() == JavaScript
	}
	return true
}

// affirm takes a negation away, with the brackets that only it needs.
func (c *collector) affirm(n int) {
	c.remove(1.6, n)
	if c.tok(n+1) == "(" {
		if end := c.match(n + 1); end > 0 {
			c.span(1.5, c.l.toks[n].at, c.l.toks[end].end(), c.l.raw[c.l.toks[n+1].end():c.l.toks[end].at])
		}
	}
}

// remove takes token n out, with the blank behind it.
func (c *collector) remove(cost float64, n int) {
	end := c.l.toks[n].end()
	for end < len(c.l.raw) && c.l.raw[end] == ' ' {
		end++
	}
	c.span(cost, c.l.toks[n].at, end, "")
}

var binary = []string{"+", "-", "*", "/", "//"}

// operands keeps only the left side of an operator.
func (c *collector) operands(n int) {
	o := c.tok(n)
	if !slices.Contains(binary, o) {
		return
	}
	a, b := c.left(n), c.right(n)
	if a < 0 || b < 0 {
		return
	}
	l := c.l.toks
	c.span(3.2, l[a].at, l[b].end(), c.l.raw[l[a].at:l[n-1].end()])
}

// left is the first token of the operand before token n, or -1.
func (c *collector) left(n int) int {
	k := n - 1
	for k >= 0 {
		t := c.l.toks[k]
		switch {
		case t.s == ")" || t.s == "]":
			o := c.open(k)
			if o < 0 {
				return -1
			}
			k = o
			if k > 0 && (c.l.toks[k-1].kind == word && !keywords[c.tok(k-1)] || c.tok(k-1) == ")" || c.tok(k-1) == "]") {
				k--
				continue
			}
		case t.kind == op || keywords[t.s] && !constants[t.s] && t.s != "this":
			return -1
		}
		if c.tok(k-1) == "." {
			k -= 2
			continue
		}
		return k
	}
	return -1
}

var constants = set("True False None true false null nil undefined this self")

// right is the last token of the operand behind token n, or -1.
func (c *collector) right(n int) int {
	k := n + 1
	if k >= len(c.l.toks) {
		return -1
	}
	t := c.l.toks[k]
	switch {
	case t.s == "(" || t.s == "[":
		k = c.match(k)
	case t.kind == op || keywords[t.s] && !constants[t.s]:
		return -1
	}
	for k >= 0 {
		switch c.tok(k + 1) {
		case "(", "[":
			k = c.match(k + 1)
		case ".":
			k += 2
		default:
			return k
		}
	}
	return -1
}
