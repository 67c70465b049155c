package redact

import (
	"encoding/json"
	"slices"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// minSecret is the shortest value that can be distinguished from ordinary text, in bytes.
const minSecret = 8

// Redactor takes secrets out of text: values that it was given, wherever they
// stand, and what looks like a key: sk-... and the other prefixes that services
// give theirs, "Bearer ...", private keys, passwords in a URL, and long values
// of letters and digits after a name such as api_key, token or password.
//
// A password that looks like a word is found by its value only. The zero value
// knows no values.
type Redactor struct {
	known []string // the longest first
}

// New makes a redactor that knows some values. Those shorter than eight
// bytes are left out: they would take ordinary text with them.
func New(secrets []string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		forms := []string{s}
		// Texts hold JSON, which writes some characters in another way.
		if b, err := json.Marshal(s); err == nil {
			forms = append(forms, strings.Trim(string(b), `"`))
		}
		for _, f := range forms {
			if !slices.Contains(r.known, f) {
				r.known = append(r.known, f)
			}
		}
	}
	slices.SortFunc(r.known, func(a, b string) int { return len(b) - len(a) })
	return r
}

// pattern finds secrets by their look. Group 1, if there is one, is what is
// taken out, and the rest stays.
type pattern struct {
	re *lazyregexp.Regexp
	// is decides about a find that looks right; after is the byte that follows.
	is func(value string, after byte) bool
}

var patterns = []pattern{
	{re: lazyregexp.New(`(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?-----END [A-Z ]{0,40}PRIVATE KEY-----`)},
	{re: lazyregexp.New(`\bsk-[A-Za-z0-9_-]{16,}`), is: mixed},
	{re: lazyregexp.New(`\b(?:gh[opsru]_|github_pat_|glpat-|xox[abeprs]-)[A-Za-z0-9_-]{16,}`), is: mixed},
	{re: lazyregexp.New(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{re: lazyregexp.New(`\bAIza[0-9A-Za-z_-]{30,}`)},
	{re: lazyregexp.New(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
	{re: lazyregexp.New(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{12,})`), is: mixed},
	{re: lazyregexp.New(`://[^/\s:@"'\\]{1,256}:([^@/\s"'\\]{1,256})@`), is: func(v string, _ byte) bool { return v != Mark }},
	{re: lazyregexp.New(`(?i)(?:api[ _-]?key|access[ _-]?key|private[ _-]?key|token|secret|passw(?:or)?d|credentials?|authorization)[\w-]{0,40}` +
		`[\s:=>"'\\]{1,8}(?:is[\s"'\\:]{1,4})?([A-Za-z0-9_.+/=~!$%^&*-]{16,})`), is: keyLike},
}

// mixed holds for what has both letters and digits: prose has no such words.
func mixed(v string, _ byte) bool {
	return strings.ContainsAny(v, "0123456789") && strings.ContainsFunc(v, letter)
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// keyLike distinguishes a key from a piece of a program: a name or a path is made of
// short words, and what is called or indexed is a name.
func keyLike(v string, after byte) bool {
	if after == '(' || after == '[' || !mixed(v, after) {
		return false
	}
	hex := true
	for _, part := range strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune("_-./", r) }) {
		if len(part) >= 8 && mixed(part, after) {
			return true
		}
		hex = hex && strings.Trim(strings.ToLower(part), "0123456789abcdef") == ""
	}
	return hex
}

// Redact returns the text without secrets, and in how many places one was.
func (r *Redactor) Redact(s string) (string, int) {
	n := 0
	for _, k := range r.known {
		if c := strings.Count(s, k); c > 0 {
			n += c
			s = strings.ReplaceAll(s, k, Mark)
		}
	}
	for _, p := range patterns {
		s = p.redact(s, &n)
	}
	return s, n
}

func (p pattern) redact(s string, n *int) string {
	var b strings.Builder
	done := 0
	for _, m := range p.re.FindAllStringSubmatchIndex(s, -1) {
		from, to := m[0], m[1]
		if len(m) > 2 {
			from, to = m[2], m[3]
		}
		var after byte
		if to < len(s) {
			after = s[to]
		}
		if p.is != nil && !p.is(s[from:to], after) {
			continue
		}
		b.WriteString(s[done:from])
		b.WriteString(Mark)
		done = to
		*n++
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}
