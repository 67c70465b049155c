package cli

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestAssignments(t *testing.T) {
	got, err := assignments("--env", []string{"A=1", "B=", "C=x=y"})
	if err != nil || got["A"] != "1" || got["C"] != "x=y" || len(got) != 3 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"A", "=1", "", "A\x00=1"} {
		if _, err := assignments("--env", []string{bad}); err == nil || !strings.Contains(err.Error(), "--env") {
			t.Errorf("%q: %v; want an error that names the flag", bad, err)
		}
	}
}

func TestParsePlace(t *testing.T) {
	for in, want := range map[string]place{
		"i4f2:/a/b": {"i4f2", "/a/b"}, "./a:b": {"", "./a:b"}, "a": {"", "a"}, "-": {"", "-"}, "x:y:z": {"x", "y:z"}, "/a:b": {"", "/a:b"},
	} {
		if got, err := parsePlace(in); err != nil || got != want {
			t.Errorf("parsePlace(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "i4f2:", "A B:/x", "i4:\x00"} {
		if got, err := parsePlace(in); err == nil {
			t.Errorf("parsePlace(%q) = %+v; want an error", in, got)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 漢": "plain é 漢", "\x1b[31mred": `\x1b[31mred`, "a\nb": `a\nb`, "a\tb": "a b", "\xff": `\xff`,
		"\u202eevil": `\u202eevil`, "\u009b31m": `\u009b31m`, "a\rb": `a\x0db`, "\x7f": `\x7f`,
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q; want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b]0;title\x07b")
	f.Add("\xc2\x9b2J\u2066x")
	f.Add(strings.Repeat("x", 2000))
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
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

func FuzzPlaceAndName(f *testing.F) {
	for _, s := range []string{"i4f2:/a", "../x", "a/../../b", "-", "/abs", "a:", "..", ".", "a\nb", "con/.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := parsePlace(s); err == nil && p.path == "" {
			t.Fatalf("parsePlace(%q) gave no path", s)
		}
		if insideName(s) && (strings.HasPrefix(s, "/") || s == ".." || strings.HasPrefix(s, "../")) {
			t.Fatalf("insideName(%q)", s)
		}
	})
}
