package human

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 漢": "plain é 漢", "\x1b[31mred": `\x1b[31mred`, "a\nb": `a\nb`, "a\tb": "a b", "\xff": `\xff`,
		"\u202eevil": `\u202eevil`, "\u009b31m": `\u009b31m`, "a\rb": `a\x0db`, "\x7f": `\x7f`,
	} {
		if got := Sanitize(in); got != want {
			t.Errorf("clean(%q) = %q; want %q", in, got, want)
		}
	}
}

func TestAnswer(t *testing.T) {
	long := strings.Repeat("why ", 300) + "what to do"
	if got := SanitizeAnswer(long); got != long {
		t.Errorf("a diagnosis of %d characters ends with %q", len(long), got[max(0, len(got)-20):])
	}
	if got := SanitizeAnswer(strings.Repeat("x", 5000)); len(got) != maxAnswer+3 {
		t.Errorf("%d characters are shown", len(got))
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b]0;title\x07b")
	f.Add("\xc2\x9b2J\u2066x")
	f.Add(strings.Repeat("x", 2000))
	f.Fuzz(func(t *testing.T, s string) {
		got := Sanitize(s)
		if !utf8.ValidString(got) {
			t.Fatalf("clean(%q) is not UTF-8", s)
		}
		if utf8.RuneCountInString(got) > maxLine*6+3 {
			t.Fatalf("clean gave %d runes", utf8.RuneCountInString(got))
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("clean(%q) = %q holds %U", s, got, r)
			}
		}
	})
}
