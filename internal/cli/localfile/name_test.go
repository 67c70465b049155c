package localfile

import (
	"testing"
)

func TestBadName(t *testing.T) {
	for _, name := range []string{"a", "a b", "ä", "\u200fשלום", "👩\u200d💻", "...", "-rf", "con", "a:b", "e\u0301"} {
		if why := NameProblem(name); why != "" {
			t.Errorf("%q: %s", name, why)
		}
	}
	for _, name := range []string{
		"", ".", "..", "a/b", `a\b`, "/a", "a\x00", "a\nb", "\x1b[2J", "\x7f", "a\u009b2J", "a\u0085", "txt.\u202eexe", "\u2066a", "a\u2028b", "a\xff",
	} {
		if NameProblem(name) == "" {
			t.Errorf("%q can be a file's name", name)
		}
	}
}
