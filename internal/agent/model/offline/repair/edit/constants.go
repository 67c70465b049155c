package edit

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// harvest is what the failure and the tests hold that may be what a constant
// should be.
type harvest struct {
	texts []string    // literals of all sources and tests, without quotes
	pairs [][2]string // two texts that should be the same
}

var (
	reQuotedText = lazyregexp.New(`'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"`)
	reDiffLine   = lazyregexp.New(`(?m)^\s*(?:E\s+)?([-+]) (.*)$`)
	reAsserts    = lazyregexp.New(`(?m)^.*(?:Error|expected|actual|got|want|!=|!==|===|Expected).*$`)
)

// maxHarvest bounds each list.
const maxHarvest = 400

func (p *project) gather() {
	for _, l := range reAsserts.FindAllString(p.output, 60) {
		q := reQuotedText.FindAllStringSubmatch(l, 4)
		if len(q) >= 2 {
			p.pairs = append(p.pairs, [2]string{q[0][1] + q[0][2], q[1][1] + q[1][2]})
		}
	}
	var minus []string
	for _, m := range reDiffLine.FindAllStringSubmatch(p.output, 80) {
		t := strings.Trim(strings.TrimSpace(m[2]), `'",`)
		if m[1] == "-" {
			minus = append(minus, t)
		} else {
			for _, o := range minus {
				p.pairs = append(p.pairs, [2]string{o, t})
			}
		}
	}
	if len(p.pairs) > 24 {
		p.pairs = p.pairs[:24]
	}
	for _, s := range p.sources {
		if base := path.Base(s.path); s.lang == JavaScript {
			stem := strings.TrimSuffix(base, path.Ext(base))
			p.texts = append(p.texts, "./"+base, "./"+stem, "../"+base, "../"+stem)
		}
	}
	for _, s := range slices.Concat(p.tests, p.sources) {
		for i := range s.lines {
			for _, t := range s.lines[i].toks {
				if body, _, ok := unquote(t); ok && len(body) <= 40 && len(p.texts) < maxHarvest && !slices.Contains(p.texts, body) {
					p.texts = append(p.texts, body)
				}
			}
		}
	}
}

// unquote takes a literal's quotes off, as it is written between them.
func unquote(t token) (body, quote string, ok bool) {
	if t.kind != text || len(t.s) < 2 {
		return "", "", false
	}
	q := t.s[:1]
	if !strings.ContainsAny(q, `'"`+"`") || !strings.HasSuffix(t.s, q) || strings.HasPrefix(t.s, q+q+q) {
		return "", "", false
	}
	return t.s[1 : len(t.s)-1], q, true
}

// Edits that replace numbers and texts.

// constant replaces the number or text at token n.
func (c *collector) constant(n int) {
	t := c.l.toks[n]
	switch t.kind {
	case number:
		c.number(n)
	case text:
		c.text(n)
	}
}

func (c *collector) number(n int) {
	t := c.l.toks[n]
	put := func(cost float64, s string) {
		if s != t.s {
			c.token(cost, n, s)
		}
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(t.s, "_", ""), 10, 64)
	if err == nil {
		put(1.8, itoa64(v+1))
		if v > 0 {
			put(1.8, itoa64(v-1))
		}
		// x - 1 and x + 1 without the one.
		if o := c.tok(n - 1); (o == "+" || o == "-") && n > 1 && v <= 2 {
			c.span(1.9, c.l.toks[n-2].end(), t.end(), "")
		}
		if c.tok(n-1) == "-" && (n < 2 || c.l.toks[n-2].kind == op && c.tok(n-2) != ")" && c.tok(n-2) != "]") {
			c.span(1.9, c.l.toks[n-1].at, t.end(), itoa64(v-1))
		}
		for i, k := range []int64{v * 10, v + 2, v - 2, v * 2, v / 2, v / 10, 0, 1, v * 100, v * 1000} {
			if k >= 0 && (v%10 == 0 || k != v/10) {
				put(3.4+0.1*float64(i), itoa64(k))
			}
		}
	}
	// What the same file holds elsewhere.
	if c.unit != nil {
		count := 0
		for i := c.unit.from; i <= c.unit.to; i++ {
			for _, o := range c.s.lines[i].toks {
				if o.kind == number && o.s != t.s && count < 6 {
					count++
					put(4.8, o.s)
				}
			}
		}
	}
}

func itoa64(n int64) string { return strconv.FormatInt(n, 10) }

// short texts that separate things.
var separators = []string{"", " ", ",", ", ", "-", "_", ":", ": ", "/", ".", ";", "=", "0", `\n`, `\t`, "|", "&", "+", "#", "'", "*"}

func (c *collector) text(n int) {
	body, q, ok := unquote(c.l.toks[n])
	if !ok {
		c.hole(n)
		return
	}
	put := func(cost float64, s string) {
		if s != body && !strings.Contains(s, q) {
			c.token(cost, n, q+s+q)
		}
	}
	for _, p := range c.p.pairs {
		for _, d := range [][2]string{p, {p[1], p[0]}} {
			was, want := differ(d[0], d[1])
			if was != "" && strings.Contains(body, was) {
				put(2.2, strings.Replace(body, was, want, 1))
			}
		}
	}
	if len(body) <= 2 {
		for i, s := range separators {
			put(4.4+0.05*float64(i), s)
		}
	}
	if len(body) >= 3 {
		for _, o := range c.p.texts {
			if d := Distance(body, o); d > 0 && d <= 2 && d < len(body)/2+1 {
				put(2+0.3*float64(d), o)
			}
		}
	}
	// Other texts of the same function.
	if c.unit != nil {
		count := 0
		for i := c.unit.from; i <= c.unit.to; i++ {
			for _, t := range c.s.lines[i].toks {
				if o, _, ok := unquote(t); ok && o != body && count < 6 {
					count++
					put(4.8, o)
				}
			}
		}
	}
}

// hole is a part of a text with expressions in it.
func (c *collector) hole(n int) {
	t := c.l.toks[n]
	for _, p := range c.p.pairs {
		for _, d := range [][2]string{p, {p[1], p[0]}} {
			if was, want := differ(d[0], d[1]); was != "" && strings.Contains(t.s, was) && !strings.ContainsAny(was, "{}$'\"`") {
				c.token(2.4, n, strings.Replace(t.s, was, want, 1))
			}
		}
	}
}

// differ is the part in which two texts differ.
func differ(a, b string) (string, string) {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// Distance is the number of letters to insert, delete, replace or swap that make
// b of a. It gives 4 for more than 3.
func Distance(a, b string) int {
	if len(a)-len(b) > 3 || len(b)-len(a) > 3 || len(a) > 64 {
		return 4
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, last[j]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return min(last[len(b)], 4)
}
