package sandbox

import (
	"strings"
	"testing"

	"hortus.dev/internal/cli/localfile"
)

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

func FuzzPlaceAndName(f *testing.F) {
	for _, s := range []string{"i4f2:/a", "../x", "a/../../b", "-", "/abs", "a:", "..", ".", "a\nb", "con/.."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := parsePlace(s); err == nil && p.path == "" {
			t.Fatalf("parsePlace(%q) gave no path", s)
		}
		if localfile.ValidPath(s) && (strings.HasPrefix(s, "/") || s == ".." || strings.HasPrefix(s, "../")) {
			t.Fatalf("insideName(%q)", s)
		}
	})
}
