package edit

import (
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// unit is a function, a method, a test, or a statement outside of all of these.
type unit struct {
	names    []string // what others know it by
	class    string   // that it is a method of, or ""
	from, to int      // lines from 0, both inclusive
	fn       bool
}

// source is a file that was read.
type source struct {
	path  string
	lang  Lang
	lines []line
	units []unit // in order; inner ones after those around them
	test  bool
	owner []int // the innermost unit of each line, or -1
}

func parse(path, content string) *source {
	s := &source{path: path, lang: LangOf(path), test: IsTest(path)}
	s.lines = lex(s.lang, content)
	if s.lang == Python {
		s.pythonUnits()
	} else {
		s.braceUnits()
	}
	owner := make([]int, len(s.lines))
	for i := range owner {
		owner[i] = s.at(i)
	}
	s.owner = owner
	return s
}

var (
	reTestFile = lazyregexp.New(`(?i)(^|/)(tests?|__tests__|spec|testdata|fixtures)/|(^|/)(test_[^/]*|[^/]*_test|conftest|tests?)\.py$|[._-](test|spec)\.[cm]?js$|(^|/)test(-[^/]*)?\.[cm]?js$|_test\.go$`)
	reTestName = lazyregexp.New("^\\s*(?:await\\s+)?(?:test|it|t\\.test)(?:\\.\\w+)?\\(\\s*(?:'((?:[^'\\\\]|\\\\.)*)'|\"((?:[^\"\\\\]|\\\\.)*)\"|`([^`]*)`)")
	reFunction = lazyregexp.New(`^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s*\*?\s*([\w$]+)`)
	reArrow    = lazyregexp.New(`^\s*(?:export\s+)?(?:const|let|var)\s+([\w$]+)\s*=\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*=>|[\w$]+\s*=>)`)
	reMethod   = lazyregexp.New(`^\s+(?:(?:static|async|get|set)\s+|\*\s*)*([#\w$]+)\s*\([^;]*\)\s*\{`)
	reProperty = lazyregexp.New(`^\s*(?:(?:module\.)?exports\.|\w+\.prototype\.)?([\w$]+)\s*[:=]\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*=>|[\w$]+\s*=>)`)
	reJSClass  = lazyregexp.New(`^\s*(?:export\s+)?(?:default\s+)?class\s+([\w$]+)`)
	reGoFunc   = lazyregexp.New(`^func\s+(?:\(\s*\w*\s*\*?(\w+)[^)]*\)\s*)?(\w+)`)
)

// IsTest says whether a file looks like a test or what tests are run with.
func IsTest(path string) bool { return reTestFile.MatchString(path) }

func (s *source) pythonUnits() {
	type frame struct {
		indent int
		class  string
	}
	var classes []frame
	for i := range s.lines {
		l := &s.lines[i]
		if len(l.toks) == 0 || l.depth > 0 || l.quote != "" {
			continue
		}
		in := len(l.indent())
		for len(classes) > 0 && classes[len(classes)-1].indent >= in {
			classes = classes[:len(classes)-1]
		}
		class := ""
		if len(classes) > 0 {
			class = classes[len(classes)-1].class
		}
		w := l.toks
		if w[0].s == "async" && len(w) > 1 {
			w = w[1:]
		}
		switch {
		case w[0].s == "class" && len(w) > 1:
			classes = append(classes, frame{in, w[1].s})
		case w[0].s == "def" && len(w) > 1:
			s.units = append(s.units, unit{names: []string{w[1].s}, class: class, from: i, to: s.indented(i), fn: true})
		case s.at(i) < 0:
			s.units = append(s.units, unit{names: l.names(), class: class, from: i, to: s.bracketed(i)})
		}
	}
}

// indented is the last line of the block that a Python header begins.
func (s *source) indented(i int) int {
	in, last := len(s.lines[i].indent()), i
	for j := i + 1; j < len(s.lines); j++ {
		l := &s.lines[j]
		if len(l.toks) == 0 {
			continue
		}
		if l.quote == "" && s.lines[j].depth <= s.lines[i].depth && len(l.indent()) <= in {
			break
		}
		last = j
	}
	return last
}

// bracketed is the last line of what begins at i, by its brackets.
func (s *source) bracketed(i int) int {
	for j := i; j < len(s.lines); j++ {
		if s.lines[j].after <= s.lines[i].depth {
			return j
		}
	}
	return len(s.lines) - 1
}

// braceUnits is for languages with braces.
func (s *source) braceUnits() {
	class, classEnd := "", -1
	for i := range s.lines {
		l := &s.lines[i]
		if len(l.toks) == 0 || l.quote != "" {
			continue
		}
		if i > classEnd {
			class = ""
		}
		name, own := "", class
		if s.lang == Go {
			if m := reGoFunc.FindStringSubmatch(l.raw); m != nil && l.depth == 0 {
				own, name = m[1], m[2]
			}
		} else {
			if m := reJSClass.FindStringSubmatch(l.raw); m != nil {
				class, classEnd = m[1], s.bracketed(i)
				continue
			}
			name = scriptFunction(l.raw)
		}
		switch {
		case name != "":
			s.units = append(s.units, unit{names: []string{name}, class: own, from: i, to: s.bracketed(i), fn: true})
		case l.depth == 0 && s.at(i) < 0 && i > classEnd:
			u := unit{names: l.names(), from: i, to: s.bracketed(i)}
			for j := i + 1; j <= u.to && s.lang == Go; j++ {
				u.names = append(u.names, s.lines[j].names()...)
			}
			s.units = append(s.units, u)
		}
	}
}

// scriptFunction is the name of the function that a line of JavaScript begins.
func scriptFunction(raw string) string {
	if m := reTestName.FindStringSubmatch(raw); m != nil {
		return m[1] + m[2] + m[3]
	}
	for _, re := range []*lazyregexp.Regexp{reFunction, reArrow, reProperty, reMethod} {
		if m := re.FindStringSubmatch(raw); m != nil && !keywords[m[1]] {
			return m[1]
		}
	}
	return ""
}

// names are the words before a line's first assignment.
func (l *line) names() []string {
	var out []string
	for _, t := range l.toks {
		if t.s == "=" || t.s == ":=" || t.s == "(" || t.s == "{" {
			break
		}
		if t.kind == word && !keywords[t.s] {
			out = append(out, t.s)
		}
	}
	return out
}

// at is the innermost unit of a line, or -1.
func (s *source) at(i int) int {
	if s.owner != nil {
		return s.owner[i]
	}
	best := -1
	for n := range s.units {
		if u := &s.units[n]; u.from <= i && i <= u.to && (best < 0 || u.from >= s.units[best].from) {
			best = n
		}
	}
	return best
}

// words are the names that a unit uses, each once.
func (s *source) words(u *unit) []string {
	var out []string
	seen := map[string]bool{}
	for i := u.from; i <= u.to; i++ {
		for _, t := range s.lines[i].toks {
			if t.kind == word && !keywords[t.s] && !seen[t.s] {
				seen[t.s] = true
				out = append(out, t.s)
			}
		}
	}
	return out
}

func set(list string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}

// keywords of all three languages together.
var keywords = set(`and as assert async await break class continue def del elif else except finally for from global if import in is lambda
 nonlocal not or pass raise return try while with yield None True False
 const let var function new typeof instanceof case switch default do throw catch this null undefined true false export of void delete extends super static
 func package type struct interface map chan go defer select range fallthrough goto nil string int int64 float64 bool byte rune error any`)

func (u *unit) named(name string) bool { return slices.Contains(u.names, name) }
