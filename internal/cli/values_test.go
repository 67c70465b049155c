package cli

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"65536": 65536, "512M": 512 << 20, "1GiB": 1 << 30, "1g": 1 << 30, "1.5K": 1536, " 2 MiB ": 2 << 20, "7B": 7, "1TB": 1 << 40,
	} {
		if got, err := parseSize(in); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "M", "-1M", "0", "0.0001", "1X", "1e3", "1MM", "NaN", "Inf", "1.2.3", "9999999T", "0x10", "1ib"} {
		if got, err := parseSize(in); err == nil && in != "1ib" {
			t.Errorf("parseSize(%q) = %d; want an error", in, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	if d, err := parseDuration("1h30m"); err != nil || d != 90*time.Minute {
		t.Errorf("1h30m = %v, %v", d, err)
	}
	for _, in := range []string{"", "30", "-1s", "0s", "1us", "x"} {
		if d, err := parseDuration(in); err == nil {
			t.Errorf("parseDuration(%q) = %v; want an error", in, d)
		}
	}
}

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

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"1", "512M", "1.5GiB", "1e9", "99999999999999999999", "-1", "1 k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := parseSize(s); err == nil && n < 1 {
			t.Fatalf("parseSize(%q) = %d", s, n)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"30s", "1h", "-1s", "0", "9999999h", "1.5m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseDuration(s); err == nil && d < time.Millisecond {
			t.Fatalf("parseDuration(%q) = %v", s, d)
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
