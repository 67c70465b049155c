package edit

import (
	"path"
	"strings"
)

// Lang is a language that edits can be made in; "" is none.
type Lang string

// The languages.
const (
	Python     Lang = "python"
	JavaScript Lang = "javascript"
	Go         Lang = "go"
)

// LangOf returns a file's language by its name.
func LangOf(name string) Lang {
	switch path.Ext(name) {
	case ".py":
		return Python
	case ".js", ".mjs", ".cjs":
		return JavaScript
	case ".go":
		return Go
	}
	return ""
}

type kind uint8

const (
	word kind = iota
	number
	text // a literal, or the part of one between its expressions
	op
	comment
)

// token is one piece of a line. At is its offset in bytes.
type token struct {
	kind kind
	s    string
	at   int
}

func (t token) end() int { return t.at + len(t.s) }

// line is one line of a source.
type line struct {
	raw   string
	toks  []token // without comments
	depth int     // of brackets, where it begins
	after int     // and where it ends
	quote string  // of the text that it begins in, or ""
}

func (l *line) indent() string {
	return l.raw[:len(l.raw)-len(strings.TrimLeft(l.raw, " \t"))]
}

// first is the first token's text, or "".
func (l *line) first() string {
	if len(l.toks) == 0 {
		return ""
	}
	return l.toks[0].s
}

// last is the last token's text, or "".
func (l *line) last() string {
	if len(l.toks) == 0 {
		return ""
	}
	return l.toks[len(l.toks)-1].s
}

// operators of more than one character, the longest first.
var operators = []string{
	">>>=", "===", "!==", "**=", "//=", "<<=", ">>=", "...", "&&=", "||=", "??=", ">>>", "&^=",
	"==", "!=", "<=", ">=", "&&", "||", "??", "?.", "=>", "->", ":=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
	"++", "--", "**", "//", "<<", ">>", "<-", "&^",
}

// lexer reads lines. Texts of several lines are what it remembers between them.
type lexer struct {
	lang  Lang
	depth int
	quote string // the end of the text or comment that goes on, "" for none
}

// lex takes a source apart.
func lex(lang Lang, src string) []line {
	x := &lexer{lang: lang}
	var out []line
	for raw := range strings.SplitSeq(src, "\n") {
		raw = strings.TrimSuffix(raw, "\r")
		l := line{raw: raw, depth: x.depth, quote: x.quote}
		x.line(&l)
		l.after = x.depth
		out = append(out, l)
	}
	return out
}

func (x *lexer) line(l *line) {
	s := l.raw
	for i := 0; i < len(s); {
		if x.quote != "" {
			i = x.resume(s, i)
			continue
		}
		c := s[i]
		switch {
		case c == ' ' || c == '\t':
			i++
		case x.lang == Python && c == '#', x.lang != Python && strings.HasPrefix(s[i:], "//"):
			return
		case x.lang != Python && strings.HasPrefix(s[i:], "/*"):
			x.quote = "*/"
			i += 2
		case isWord(c):
			j := i
			for j < len(s) && (isWord(s[j]) || s[j] >= '0' && s[j] <= '9') {
				j++
			}
			if j < len(s) && (s[j] == '"' || s[j] == '\'') && x.lang == Python && j-i <= 2 && strings.Trim(s[i:j], "rRbBuUfF") == "" {
				i = x.literal(l, i, j)
				continue
			}
			l.toks = append(l.toks, token{word, s[i:j], i})
			i = j
		case c >= '0' && c <= '9' || c == '.' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			j := i
			for j < len(s) && (isWord(s[j]) || s[j] >= '0' && s[j] <= '9' || s[j] == '.' && !strings.HasPrefix(s[j:], "..")) {
				j++
			}
			l.toks = append(l.toks, token{number, s[i:j], i})
			i = j
		case c == '"' || c == '\'' || c == '`' && x.lang != Python:
			i = x.literal(l, i, i)
		case c == '/' && x.lang == JavaScript && regexFollows(l.toks):
			i = x.regex(l, i)
		default:
			i = x.operator(l, i)
		}
	}
}

func (x *lexer) operator(l *line, i int) int {
	s := l.raw[i:]
	for _, o := range operators {
		if strings.HasPrefix(s, o) && (o != "//" || x.lang == Python) {
			l.toks = append(l.toks, token{op, o, i})
			return i + len(o)
		}
	}
	switch s[0] {
	case '(', '[', '{':
		x.depth++
	case ')', ']', '}':
		x.depth = max(0, x.depth-1)
	}
	l.toks = append(l.toks, token{op, s[:1], i})
	return i + 1
}

// resume goes on in a text or comment of several lines.
func (x *lexer) resume(s string, i int) int {
	for i < len(s) {
		if strings.HasPrefix(s[i:], x.quote) {
			i += len(x.quote)
			x.quote = ""
			return i
		}
		if s[i] == '\\' && x.quote != "*/" {
			i++
		}
		i++
	}
	return len(s)
}

// literal reads a text whose quote is at q and whose prefix begins at i. The
// expressions of an f-string or a template become tokens of their own.
func (x *lexer) literal(l *line, i, q int) int {
	s := l.raw
	quote := s[q : q+1]
	if x.lang == Python && (strings.HasPrefix(s[q:], `"""`) || strings.HasPrefix(s[q:], "'''")) {
		quote = s[q : q+3]
	}
	holes := ""
	switch {
	case x.lang == Python && strings.ContainsAny(s[i:q], "fF"):
		holes = "{"
	case x.lang == JavaScript && quote == "`":
		holes = "${"
	}
	raw := x.lang == Go && quote == "`"
	start, j := i, q+len(quote)
	for j < len(s) {
		switch {
		case strings.HasPrefix(s[j:], quote):
			j += len(quote)
			l.toks = append(l.toks, token{text, s[start:j], start})
			return j
		case s[j] == '\\' && !raw:
			j += 2
		case holes == "{" && strings.HasPrefix(s[j:], "{{"):
			j += 2
		case holes != "" && strings.HasPrefix(s[j:], holes):
			end := closing(s, j+len(holes)-1)
			if end < 0 {
				j++
				continue
			}
			l.toks = append(l.toks, token{text, s[start : j+len(holes)], start})
			inner := line{raw: s[:end]}
			sub := &lexer{lang: x.lang}
			inner.raw = strings.Repeat(" ", j+len(holes)) + s[j+len(holes):end]
			sub.line(&inner)
			l.toks = append(l.toks, inner.toks...)
			start, j = end, end+1
		default:
			j++
		}
	}
	j = min(j, len(s))
	if len(quote) == 3 || quote == "`" {
		x.quote = quote
	}
	l.toks = append(l.toks, token{text, s[start:j], start})
	return j
}

// closing finds the brace that closes the one at i, or -1.
func closing(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func (x *lexer) regex(l *line, i int) int {
	s, class := l.raw, false
	for j := i + 1; j < len(s); j++ {
		switch {
		case s[j] == '\\':
			j++
		case s[j] == '[':
			class = true
		case s[j] == ']':
			class = false
		case s[j] == '/' && !class:
			for j++; j < len(s) && isWord(s[j]); j++ {
			}
			l.toks = append(l.toks, token{text, s[i:j], i})
			return j
		}
	}
	return x.operator(l, i)
}

// regexFollows reports whether a slash begins a pattern here, and is no division.
func regexFollows(toks []token) bool {
	if len(toks) == 0 {
		return true
	}
	t := toks[len(toks)-1]
	switch t.kind {
	case op:
		return t.s != ")" && t.s != "]" && t.s != "}"
	case word:
		return t.s == "return" || t.s == "typeof" || t.s == "case"
	}
	return false
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
}
