package lazyregexp

import (
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression that is compiled when it is first used. Its methods are
// those of [regexp.Regexp], and ReplaceFunc.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns the regular expression of a text, which must be correct: the first use of
// one that is not panics.
func New(text string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
}

func (r *Regexp) Match(b []byte) bool { return r.compiled().Match(b) }

func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }

func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compiled().FindSubmatch(b) }

func (r *Regexp) FindStringIndex(s string) []int { return r.compiled().FindStringIndex(s) }

func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compiled().FindStringSubmatchIndex(s)
}

func (r *Regexp) FindAllString(s string, n int) []string { return r.compiled().FindAllString(s, n) }

func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

func (r *Regexp) ReplaceAllString(s, with string) string {
	return r.compiled().ReplaceAllString(s, with)
}

func (r *Regexp) ReplaceAllLiteralString(s, with string) string {
	return r.compiled().ReplaceAllLiteralString(s, with)
}

// ReplaceFunc replaces each match by what f returns for its text and its groups. A group
// that did not match is empty.
func (r *Regexp) ReplaceFunc(s string, f func(groups []string) string) string {
	var out strings.Builder
	last := 0
	for _, at := range r.compiled().FindAllStringSubmatchIndex(s, -1) {
		groups := make([]string, len(at)/2)
		for i := range groups {
			if at[2*i] >= 0 {
				groups[i] = s[at[2*i]:at[2*i+1]]
			}
		}
		out.WriteString(s[last:at[0]])
		out.WriteString(f(groups))
		last = at[1]
	}
	out.WriteString(s[last:])
	return out.String()
}
