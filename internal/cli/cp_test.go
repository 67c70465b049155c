package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/iotest"

	"hortus.dev/api"
)

// TestWriteSparse: what is read is what is written, and zeros take no space.
func TestWriteSparse(t *testing.T) {
	const mib = 1 << 20
	text := bytes.Repeat([]byte("not zero "), 1000)
	for name, want := range map[string][]byte{
		"nothing":     {},
		"text":        text,
		"zeros":       make([]byte, 8*mib),
		"odd zeros":   make([]byte, 8*mib+1),
		"a hole":      append(append(bytes.Clone(text), make([]byte, 8*mib)...), text...),
		"ends in one": append(bytes.Clone(text), make([]byte, 8*mib+7)...),
	} {
		for how, r := range map[string]io.Reader{"at once": bytes.NewReader(want), "in halves": iotest.HalfReader(bytes.NewReader(want))} {
			f, err := os.Create(filepath.Join(t.TempDir(), "f"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := writeSparse(f, r); err != nil {
				t.Fatalf("%s, %s: %v", name, how, err)
			}
			got, err := os.ReadFile(f.Name())
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %s: %d bytes of %d, %v", name, how, len(got), len(want), err)
			}
			var st syscall.Stat_t
			if err := syscall.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 > mib {
				t.Errorf("%s, %s: %d bytes of the disk are used, %v", name, how, st.Blocks*512, err)
			}
		}
	}
	// A stream that is cut is no shorter file.
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := writeSparse(f, io.MultiReader(bytes.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF))); err != io.ErrUnexpectedEOF {
		t.Errorf("a cut: %v", err)
	}
}

func TestBadName(t *testing.T) {
	for _, name := range []string{"a", "a b", "ä", "\u200fשלום", "👩\u200d💻", "...", "-rf", "con", "a:b", "e\u0301"} {
		if why := badName(name); why != "" {
			t.Errorf("%q: %s", name, why)
		}
	}
	for _, name := range []string{
		"", ".", "..", "a/b", `a\b`, "/a", "a\x00", "a\nb", "\x1b[2J", "\x7f", "a\u009b2J", "a\u0085", "txt.\u202eexe", "\u2066a", "a\u2028b", "a\xff",
	} {
		if badName(name) == "" {
			t.Errorf("%q can be a file's name", name)
		}
	}
}

// TestOutGoesOn: of a task's files one whose name cannot be kept does not keep the
// others from being written.
func TestOutGoesOn(t *testing.T) {
	dir := t.TempDir()
	out, err := openOut(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	task := api.Task{Attempts: []api.Attempt{{Artifact: api.CodeArtifact{
		Files: []api.File{{Path: "../evil"}, {Path: "a\u009bb"}, {Path: "last"}},
	}}}}
	if err := out.write(task); err == nil {
		t.Error("nothing is said of the two that are missing")
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "last" {
		t.Errorf("%v, %v", list, err)
	}
}
