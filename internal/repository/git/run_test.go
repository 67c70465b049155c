package git

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
)

// TestAllocation: an object that exceeds the allocation limit ends git, with a reason.
func TestAllocation(t *testing.T) {
	p, err := Find("", t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 1<<20)
	hash := func(limit string) error {
		_, err := p.Run(gittest.Context(t), Call{Args: []string{"hash-object", "--stdin"}, Stdin: strings.NewReader(text), Env: []string{"GIT_ALLOC_LIMIT=" + limit}})
		return err
	}
	gittest.WantKind(t, hash("100k"), api.KindExhausted, "too large")
	if err := hash("1g"); err != nil {
		t.Errorf("control: %v", err)
	}
	if !strings.Contains(strings.Join(p.environ(Call{Args: []string{"x"}}), "\n"), "\nGIT_ALLOC_LIMIT=1g\n") {
		t.Error("a call has no limit")
	}
}

// FuzzClean feeds what git prints to what makes it part of an error.
func FuzzClean(f *testing.F) {
	f.Add([]byte("fatal: x\x1b[31m\nhint: y\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		text := Sanitize(string(b), 100)
		if len(text) > 100 || !utf8.ValidString(text) || bytes.ContainsAny([]byte(text), "\x1b\x00\r\x07") {
			t.Errorf("clean gives %q", text)
		}
		summary(string(b))
	})
}
