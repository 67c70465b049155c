// Package text takes texts apart and puts them together.
package text

import (
	"sort"
	"strings"
	"unicode"
)

// Words gives the words of a text in lower case.
func Words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// Count is how often a word stands in a text.
type Count struct {
	Word string
	N    int
}

// Top gives the n words that stand most often, ties by the alphabet.
func Top(s string, n int) []Count {
	seen := map[string]int{}
	for _, w := range Words(s) {
		seen[w]++
	}
	var out []Count
	for w, k := range seen {
		out = append(out, Count{w, k})
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].N != out[j].N {
			return out[i].N > out[j].N
		}
		return out[i].Word < out[j].Word
	})
	if len(out) > n {
		out = out[:n]
	}
	return out
}

// Wrap breaks a text into lines of at most width bytes.
func Wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(s) {
		switch {
		case line == "":
			line = w
		case len(line)+1+len(w) <= width:
			line += " " + w
		default:
			lines = append(lines, line)
			line = w
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Slug makes a text fit for an address.
func Slug(s string) string {
	return strings.Join(Words(s), "-")
}

// Camel makes an identifier of a text.
func Camel(s string) string {
	var b strings.Builder
	for i, w := range Words(s) {
		if i == 0 {
			b.WriteString(w)
			continue
		}
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String()
}
