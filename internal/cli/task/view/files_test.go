package view

import (
	"bytes"
	"strings"
	"testing"

	"hortus.dev/api"
)

func FuzzHarmless(f *testing.F) {
	f.Add("a\tb\x1b[31m\u202e\xff\n")
	f.Fuzz(func(t *testing.T, s string) {
		var out bytes.Buffer
		if err := ShowPatch(&out, strings.NewReader(s), false); err != nil {
			t.Fatal(err)
		}
		if err := ShowTranscript(&out, strings.NewReader(s)); err != nil && api.KindOf(err) != api.KindUnavailable {
			t.Fatal(err)
		}
		if strings.ContainsFunc(out.String(), func(r rune) bool { return r != '\n' && r != '\t' && r < 0x20 || r == 0x7f || r == 0x202e }) {
			t.Fatalf("%q shows %q", s, out.String())
		}
	})
}
