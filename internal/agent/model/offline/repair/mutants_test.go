package repair

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// mutant is a line that somebody got wrong.
type mutant struct {
	kind, path string
	line       int // from 0
	was, now   string
	source     string
}

// breaker makes one kind of mistake in line i. It gives the new lines in place of
// that one, or false where the mistake cannot be made there. It is written without
// a look at what the repair tries, in which order, and with what is not among it.
type breaker struct {
	kind string
	f    func(r *rand.Rand, lines []string, i int) ([]string, bool)
}

var (
	reRelation = regexp.MustCompile(` (<=|>=|===|!==|==|!=|<|>) `)
	reArith    = regexp.MustCompile(` (\+|-|\*|//|/|%) |(\+=|-=|\*=)`)
	reLogic    = regexp.MustCompile(` (and|or|&&|\|\|) `)
	reInteger  = regexp.MustCompile(`\b\d+\b`)
	reBoolean  = regexp.MustCompile(`\b(True|False|true|false)\b`)
	reUsedName = regexp.MustCompile(`\b[a-zA-Z_]\w*\b`)
	reCallArgs = regexp.MustCompile(`(\w\()([\w.\[\]"']+), ([\w.\[\]"']+)`)
	reMember   = regexp.MustCompile(`\.([a-zA-Z_]\w+)\b`)
	reLiteral  = regexp.MustCompile(`'([^'{}\\]*)'|"([^"{}\\]*)"`)
	reIfHead   = regexp.MustCompile(`^(\s*(?:\} else )?(?:el)?if )(.*?)( ?[:{])$`)
	reClause   = regexp.MustCompile(`([\w.()\[\]' ]+?) (and|&&|or|\|\|) ([\w.()\[\]' +=!<>"]+)`)
	reBound    = regexp.MustCompile(`(\w|\))(\]|\)| \{|:)`)
	reWords    = regexp.MustCompile(`\b(?:def|return|if|else|elif|for|while|in|not|and|or|import|from|class|raise|try|except|finally|with|as|is|None|True|False|self|const|let|var|function|new|of|this|true|false|null|export|module|require|throw|async|await|func|package|type|struct|range|nil|int|string|float64|bool|error|case|default|switch|continue|break|lambda|pass|static|constructor|extends)\b`)
)

func one1(s string, ok bool) ([]string, bool) { return []string{s}, ok }

// pick replaces a random match of a pattern's group.
func pick(r *rand.Rand, re *regexp.Regexp, s string, f func(old string) string) ([]string, bool) {
	all := re.FindAllStringSubmatchIndex(s, -1)
	if len(all) == 0 {
		return nil, false
	}
	m := all[r.IntN(len(all))]
	a, b := m[0], m[1]
	for g := 2; g+1 < len(m); g += 2 {
		if m[g] >= 0 {
			a, b = m[g], m[g+1]
			break
		}
	}
	now := f(s[a:b])
	return []string{s[:a] + now + s[b:]}, now != s[a:b]
}

func other(r *rand.Rand, list []string, old string) string {
	for range 20 {
		if s := list[r.IntN(len(list))]; s != old {
			return s
		}
	}
	return old
}

var breakers = []breaker{
	{"relation", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		return pick(r, reRelation, l[i], func(o string) string {
			if len(o) == 3 {
				return other(r, []string{"===", "!=="}, o)
			}
			return other(r, []string{"<", "<=", ">", ">=", "==", "!="}, o)
		})
	}},
	{"arithmetic", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		return pick(r, reArith, l[i], func(o string) string {
			if strings.HasSuffix(o, "=") {
				return other(r, []string{"+=", "-=", "="}, o)
			}
			return other(r, []string{"+", "-", "*", "/"}, o)
		})
	}},
	{"logic", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		return pick(r, reLogic, l[i], func(o string) string {
			return map[string]string{"and": "or", "or": "and", "&&": "||", "||": "&&"}[o]
		})
	}},
	{"integer", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		return pick(r, reInteger, l[i], func(o string) string {
			n, _ := strconv.Atoi(o)
			return strconv.Itoa([]int{n + 1, n - 1, 0, 2 * n, n + 1 + r.IntN(5)}[r.IntN(5)])
		})
	}},
	{"boolean", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		return pick(r, reBoolean, l[i], func(o string) string {
			return map[string]string{"True": "False", "False": "True", "true": "false", "false": "true"}[o]
		})
	}},
	{"lost statement", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		t := strings.TrimSpace(l[i])
		indented := l[i] != t
		return nil, indented && t != "" && !strings.ContainsAny(t[len(t)-1:], "{}:[(,)") || indented && strings.HasSuffix(t, ");")
	}},
	{"swapped lines", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		return nil, false // in breakSource: two lines at once
	}},
	{"negated condition", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		m := reIfHead.FindStringSubmatch(l[i])
		if m == nil {
			return nil, false
		}
		switch {
		case strings.HasSuffix(l[i], ":"):
			return one1(m[1]+"not ("+m[2]+")"+m[3], true)
		case strings.HasPrefix(m[2], "("):
			return one1(m[1]+"(!"+m[2]+")"+m[3], true)
		}
		return one1(m[1]+"!("+m[2]+")"+m[3], true)
	}},
	{"lost negation", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		for _, n := range []string{"not ", "!"} {
			if k := strings.Index(l[i], n); k >= 0 && !strings.HasPrefix(l[i][k:], "!=") {
				return one1(l[i][:k]+l[i][k+len(n):], true)
			}
		}
		return nil, false
	}},
	{"wrong variable", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		near := map[string]bool{}
		var names []string
		for j := max(0, i-6); j < min(len(l), i+6); j++ {
			for _, n := range reUsedName.FindAllString(reLiteral.ReplaceAllString(l[j], ""), -1) {
				if !near[n] && !reWords.MatchString(n) {
					near[n] = true
					names = append(names, n)
				}
			}
		}
		if len(names) < 2 {
			return nil, false
		}
		return pick(r, reUsedName, l[i], func(o string) string {
			if reWords.MatchString(o) {
				return o
			}
			return other(r, names, o)
		})
	}},
	{"misspelt", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		return pick(r, reUsedName, l[i], func(o string) string {
			if len(o) < 4 || reWords.MatchString(o) {
				return o
			}
			k := 1 + r.IntN(len(o)-2)
			if r.IntN(2) == 0 {
				return o[:k] + o[k+1:]
			}
			return o[:k] + o[k+1:k+2] + o[k:k+1] + o[k+2:]
		})
	}},
	{"lost import", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		t := strings.TrimSpace(l[i])
		return nil, strings.HasPrefix(t, "import ") || strings.HasPrefix(t, "from ") || strings.Contains(t, "require(") ||
			strings.HasPrefix(t, `"`) && strings.HasSuffix(t, `"`) && !strings.Contains(t, " ")
	}},
	{"swapped arguments", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		now := reCallArgs.ReplaceAllString(l[i], "$1$3, $2")
		return one1(now, now != l[i])
	}},
	{"wrong member", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		var names []string
		for j := max(0, i-30); j < min(len(l), i+30); j++ {
			for _, m := range reMember.FindAllStringSubmatch(l[j], -1) {
				names = append(names, m[1])
			}
		}
		if len(names) < 2 {
			return nil, false
		}
		return pick(r, reMember, l[i], func(o string) string { return other(r, names, o) })
	}},
	{"lost return", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		k := strings.Index(l[i], "return ")
		return one1(strings.Replace(l[i], "return ", "", 1), k >= 0 && strings.TrimSpace(l[i][:k]) == "")
	}},
	{"text", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		return pick(r, reLiteral, l[i], func(o string) string {
			if o == "" {
				return "x"
			}
			k := r.IntN(len(o))
			return o[:k] + o[k+1:]
		})
	}},
	{"lost word", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		for _, w := range []string{"await ", "self.", "this."} {
			if strings.Contains(l[i], w) && !strings.Contains(l[i], "def ") {
				return one1(strings.Replace(l[i], w, "", 1), true)
			}
		}
		return nil, false
	}},
	{"off by one", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		all := reBound.FindAllStringSubmatchIndex(l[i], -1)
		if len(all) == 0 {
			return nil, false
		}
		m := all[r.IntN(len(all))]
		return one1(l[i][:m[3]]+[]string{" + 1", " - 1"}[r.IntN(2)]+l[i][m[3]:], true)
	}},
	{"indentation", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		return one1(strings.TrimPrefix(l[i], "    "), strings.HasPrefix(l[i], "        ") && !strings.ContainsAny(l[i], "{}"))
	}},
	{"lost clause", func(r *rand.Rand, l []string, i int) ([]string, bool) {
		m := reClause.FindStringSubmatchIndex(l[i])
		if m == nil {
			return nil, false
		}
		return one1(l[i][:m[3]]+l[i][m[7]:], true)
	}},
}

// breakSource makes one mistake in one of the files.
func breakSource(r *rand.Rand, files map[string]string, paths []string) (mutant, bool) {
	path := paths[r.IntN(len(paths))]
	lines := strings.Split(files[path], "\n")
	i := r.IntN(len(lines))
	t := strings.TrimSpace(lines[i])
	if t == "" || strings.HasPrefix(t, "#") || strings.HasPrefix(t, "/") || strings.HasPrefix(t, `"""`) || strings.HasPrefix(t, "package") {
		return mutant{}, false
	}
	b := breakers[r.IntN(len(breakers))]
	m := mutant{kind: b.kind, path: path, line: i, was: lines[i]}
	var now []string
	if b.kind == "swapped lines" {
		if i+1 >= len(lines) || strings.ContainsAny(lines[i]+lines[i+1], "{}") || strings.HasSuffix(t, ":") || strings.HasSuffix(strings.TrimSpace(lines[i+1]), ":") || strings.TrimSpace(lines[i+1]) == "" || indentOf(lines[i]) != indentOf(lines[i+1]) || indentOf(lines[i]) == "" {
			return mutant{}, false
		}
		lines[i], lines[i+1] = lines[i+1], lines[i]
		m.was, m.now = lines[i+1]+" / "+lines[i], lines[i]+" / "+lines[i+1]
	} else {
		var ok bool
		if now, ok = b.f(r, lines, i); !ok {
			return mutant{}, false
		}
		m.now = strings.Join(now, " / ")
		lines = append(lines[:i:i], append(now, lines[i+1:]...)...)
	}
	m.source = strings.Join(lines, "\n")
	return m, m.source != files[path]
}

func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }
