package gate

import (
	"path"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
	"hortus.dev/internal/task/gate/report"
)

// Disguised gives the commands of a gate in a disguise, see package report.
func Disguised(checks []*Check, d report.Disguise) (out []*Check) {
	for _, c := range checks {
		with := *c
		if c.Plan.Reports() {
			with.Plan, with.disguise = c.Plan.Disguised(d), d.Parts
		}
		out = append(out, &with)
	}
	return out
}

// Hides reports whether the variables of a gate are hidden from the command.
func (c *Check) Hides() bool { return c.disguise&report.Names != 0 }

// Same reports whether each test ended as before the work, but for unstable ones.
func Same(checks []*Check, ran []*Ran) bool {
	if len(ran) != len(checks) {
		return false
	}
	for i, c := range checks {
		r := ran[i].Report
		if !c.Tests.Began {
			continue
		}
		if r.Whole(c.Tests) != c.Tests.Whole(c.Tests) || len(r.Tests) != len(c.Tests.Tests) {
			return false
		}
		for name, o := range c.Tests.Tests {
			if r.Tests[name] != o && !slices.Contains(c.Unstable, name) {
				return false
			}
		}
	}
	return true
}

// ownName are the names that runners look for, in two parts: what is between them is theirs too.
var ownName = lazyregexp.New(`^(?:(test)(_\w+\.py)|(\w+)(_test\.py)|([\w-]+)([._-](?:test|spec)\.[cm]?[jt]sx?)|([A-Za-z0-9]+)(_test\.go))$`)

// OtherName is a name for a test file under which its runner finds it as well; empty if there is none. A report has it without the token.
func OtherName(p, token string) string {
	dir, base := path.Split(p)
	m := ownName.FindStringSubmatch(base)
	if m == nil {
		return "" // in Go, what stands before _test.go may be a system
	}
	return dir + m[1] + m[3] + m[5] + m[7] + token + m[2] + m[4] + m[6] + m[8]
}

// Mentions counts how often files are named: by paths, and in texts.
type Mentions map[string]int

// NewMentions makes Mentions.
func NewMentions() Mentions { return Mentions{} }

// mention is a word, perhaps with dots. A function may have the name of its file.
var mention = lazyregexp.New(`(?:\b(?:def|func)\s+)?[\w-]+(?:\.[\w-]+)*`)

// Path counts the parts of a path.
func (m Mentions) Path(p string) {
	for part := range strings.SplitSeq(p, "/") {
		m.word(part)
	}
}

// Text counts the words of a text.
func (m Mentions) Text(text []byte) {
	for _, w := range mention.FindAllString(string(text), -1) {
		if !strings.ContainsAny(w, " \t\n") {
			m.word(w)
		}
	}
}

// word counts what a name with dots may be of a file.
func (m Mentions) word(w string) {
	const most = 3 // parts of a name
	parts := strings.SplitN(w, ".", 16)
	for i := range parts {
		for k := i + 1; k <= min(len(parts), i+most); k++ {
			m[strings.Join(parts[i:k], ".")]++
		}
	}
}

// Of is how often a file is named, without the ending of its name.
func (m Mentions) Of(p string) int {
	base := path.Base(p)
	return m[strings.TrimSuffix(base, path.Ext(base))]
}
