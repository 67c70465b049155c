package sparse

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/iotest"
)

// TestCopy: what is read is what is written, and zeros take no space.
func TestCopy(t *testing.T) {
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
			if err := Copy(f, r); err != nil {
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
	if err := Copy(f, io.MultiReader(bytes.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF))); err != io.ErrUnexpectedEOF {
		t.Errorf("a cut: %v", err)
	}
}
