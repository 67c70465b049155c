package edit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Edit replaces the lines From to To of a file, counted from 1 and both
// included, by Lines. From is To+1 where something is put in before From. No
// Lines is a deletion.
type Edit struct {
	Path     string
	From, To int
	Lines    []string
	// Why says for a person what it does.
	Why  string
	cost float64
}

// Apply returns a source after an edit. It is false where the lines are not there.
func (e Edit) Apply(src string) (string, bool) {
	lines := strings.Split(src, "\n")
	if e.From < 1 || e.To < e.From-1 || e.To > len(lines) {
		return "", false
	}
	return strings.Join(slices.Concat(lines[:e.From-1], e.Lines, lines[e.To:]), "\n"), true
}

// MaxEdits bounds a list of edits.
const MaxEdits = 1600

// List lists what may repair the sources, the likeliest first. Known are edits
// that are to be weighed with the rest as the likeliest ones, because an error
// names them.
func List(files []File, f Failure, known []Edit) []Edit {
	p := newProject(files, f)
	c := &collector{p: p, seen: map[string]bool{}}
	for i, e := range known {
		e.cost = -2 + 0.01*float64(i)
		c.put(e)
	}
	c.compile()
	for _, s := range p.sources {
		for i := range s.lines {
			if l := &s.lines[i]; len(l.toks) > 0 && (len(s.lines) <= largeFile || p.near(s, i)) {
				c.at(s, i, l)
			}
		}
	}
	slices.SortStableFunc(c.edits, func(a, b Edit) int { return cmp.Compare(a.cost, b.cost) })
	if len(c.edits) > MaxEdits {
		c.edits = c.edits[:MaxEdits]
	}
	return c.edits
}

const (
	// largeFile is how many lines a file may have to be edited everywhere. A larger one is edited in the lines around
	// those that the failure names, at most around on each side.
	largeFile = 3000
	around    = 40
)

// near reports whether a line is close to one that the failure names.
func (p *project) near(s *source, i int) bool {
	return slices.ContainsFunc(p.frames, func(f Frame) bool {
		return f.Path == s.path && i >= f.Line-1-around && i <= f.Line-1+around
	})
}

// collector gathers edits of one line after the other.
type collector struct {
	p     *project
	edits []Edit
	seen  map[string]bool

	s    *source
	i    int
	l    *line
	unit *unit // nil outside of one
	base float64
	vars []string
}

// Bounds of the lines that are edited.
const (
	maxLine   = 300
	maxTokens = 80
)

// at collects the edits of one line.
func (c *collector) at(s *source, i int, l *line) {
	if len(l.raw) > maxLine || len(l.toks) > maxTokens {
		return
	}
	c.s, c.i, c.l, c.unit = s, i, l, nil
	c.base = c.p.cost(s, i)
	if n := s.at(i); n >= 0 {
		c.unit = &s.units[n]
	}
	c.vars = c.variables()
	for n := range l.toks {
		c.operator(n)
		c.constant(n)
		c.name(n)
		c.offset(n)
		c.arguments(n)
	}
	c.conditions()
	c.statements()
	c.idioms()
}

func (c *collector) put(e Edit) {
	key := e.Path + "\x00" + strconv.Itoa(e.From) + "\x00" + strconv.Itoa(e.To) + "\x00" + strings.Join(e.Lines, "\n")
	if c.seen[key] || len(c.edits) >= 16*MaxEdits || slices.ContainsFunc(e.Lines, func(l string) bool { return strings.ContainsAny(l, "\n\r\x00") }) {
		return
	}
	c.seen[key] = true
	c.edits = append(c.edits, e)
}

// lines replaces n lines from the current one.
func (c *collector) lines(cost float64, n int, why string, lines ...string) {
	if n == 1 && len(lines) == 1 && lines[0] == c.l.raw {
		return
	}
	c.put(Edit{Path: c.s.path, From: c.i + 1, To: c.i + n, Lines: lines, Why: why, cost: c.base + cost})
}

// span replaces the bytes from a to b of the current line.
func (c *collector) span(cost float64, a, b int, with string) {
	c.lines(cost, 1, "", c.l.raw[:a]+with+c.l.raw[b:])
}

// token replaces token n.
func (c *collector) token(cost float64, n int, with string) {
	t := c.l.toks[n]
	c.span(cost, t.at, t.end(), with)
}

// tok is the text of token n, or "" if there is none.
func (c *collector) tok(n int) string {
	if n < 0 || n >= len(c.l.toks) {
		return ""
	}
	return c.l.toks[n].s
}

// match finds the bracket that closes the one of token n on the same line, or -1.
func (c *collector) match(n int) int {
	depth := 0
	for ; n < len(c.l.toks); n++ {
		if c.l.toks[n].kind != op {
			continue
		}
		switch c.l.toks[n].s {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return n
			}
		}
	}
	return -1
}

// open finds the bracket that token n stands in on the same line, or -1.
func (c *collector) open(n int) int {
	depth := 0
	for n--; n >= 0; n-- {
		if c.l.toks[n].kind != op {
			continue
		}
		switch c.l.toks[n].s {
		case ")", "]", "}":
			depth++
		case "(", "[", "{":
			if depth == 0 {
				return n
			}
			depth--
		}
	}
	return -1
}

func (c *collector) lang() Lang { return c.s.lang }
