package durable

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnified compares with the diff program, whose result is a shortest one too.
func TestUnified(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"added":          {"", "a\n", "@@ -0,0 +1,1 @@\n+a\n"},
		"removed":        {"a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
		"no end of line": {"a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		"context":        {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
	} {
		if got, why := unified([]byte(c.before), []byte(c.after)); got != c.want || why != "" {
			t.Errorf("%s: %s\n%q\nwant\n%q", name, why, got, c.want)
		}
	}
	var long, other strings.Builder
	for range maxEdits {
		long.WriteString("a\n")
		other.WriteString("b\n")
	}
	if got, why := unified([]byte(long.String()), []byte(other.String())); got != "" || why == "" {
		t.Errorf("two long texts: %d bytes, %q", len(got), why)
	}
}

// TestUnifiedApplies applies the result of random texts with the patch program.
func TestUnifiedApplies(t *testing.T) {
	patch, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	r := rand.New(rand.NewPCG(1, 2))
	text := func() []byte {
		var b bytes.Buffer
		for range r.IntN(40) {
			b.WriteString(string(rune('a'+r.IntN(4))) + "\n")
		}
		if r.IntN(4) == 0 {
			b.WriteString("end")
		}
		return b.Bytes()
	}
	for range 60 {
		before, after := text(), text()
		if len(before) == 0 || len(after) == 0 {
			continue
		}
		got, why := unified(before, after)
		if why != "" {
			t.Fatal(why)
		}
		if got == "" {
			if !bytes.Equal(before, after) {
				t.Fatalf("%q and %q are the same", before, after)
			}
			continue
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f"), before, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(patch, "apply", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader("--- a/f\n+++ b/f\n"+got)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%q\n%q\n%s", err, out, before, after, got)
		}
		if b, _ := os.ReadFile(filepath.Join(dir, "f")); !bytes.Equal(b, after) {
			t.Fatalf("%q became %q, not %q:\n%s", before, b, after, got)
		}
	}
}
