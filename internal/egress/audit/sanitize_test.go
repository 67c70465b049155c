package audit

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"example.org":            "example.org",
		"größe":                  "größe",
		"a\x1b]0;x\x07":          "a\ufffd]0;x\ufffd",
		"a\xff\xfe":              "a\ufffd\ufffd",
		"a\u202eb\u200b\u2028":   "a\ufffdb\ufffd\ufffd",
		"0123456789012345678901": "01234567890123456…",
		"01234567890123456789":   "01234567890123456789",
		"0123456789012345ü89ab":  "0123456789012345…",
	} {
		if got := Text(in, 20); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// A script is shown on one line, without marks of what could not be shown.
func TestCommandsOfSeveralLines(t *testing.T) {
	d := sanitize(api.EgressDecision{Commands: []string{"sh -c set -eu\n\tcurl example.org\r\nexit 0", "a\x1b[31m"}})
	if want := []string{"sh -c set -eu  curl example.org exit 0", "a\uFFFD[31m"}; !slices.Equal(d.Commands, want) {
		t.Errorf("%q; want %q", d.Commands, want)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\u202e", 10)
	f.Add(strings.Repeat("ü", 50), 21)
	f.Fuzz(func(t *testing.T, in string, most int) {
		if most < 3 || most > 1<<12 {
			return
		}
		got := Text(in, most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) || Text(got, most) != got {
			t.Errorf("%q within %d is %q", in, most, got)
		}
	})
}
