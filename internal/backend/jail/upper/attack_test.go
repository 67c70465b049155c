package upper

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// forged builds saved files that Write never would.
type forged struct{ bytes.Buffer }

func forge() *forged {
	f := &forged{}
	f.WriteString(magic)
	f.rec(recTree, Root).meta(0o755)
	return f
}

func (f *forged) rec(kind byte, name string) *forged {
	f.WriteByte(kind)
	f.WriteByte(byte(len(name)))
	f.WriteString(name)
	return f
}

func (f *forged) meta(mode uint32) *forged {
	b := make([]byte, metaSize)
	binary.LittleEndian.PutUint32(b, mode)
	binary.LittleEndian.PutUint32(b[4:], uint32(os.Geteuid()))
	binary.LittleEndian.PutUint32(b[8:], uint32(os.Getegid()))
	f.Write(b)
	return f
}

func (f *forged) text(s string) *forged {
	f.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(s))))
	f.WriteString(s)
	return f
}

func (f *forged) numbers(n ...uint64) *forged {
	for _, v := range n {
		f.Write(binary.LittleEndian.AppendUint64(nil, v))
	}
	return f
}

func (f *forged) end() []byte {
	f.WriteByte(recUp)
	f.WriteByte(recEnd)
	return f.Bytes()
}

// outside is a directory with a file that no saved files may touch, and an empty one
// beside it.
func outside(t testing.TB) (secret, dir string, untouched func()) {
	top := t.TempDir()
	dir, secret = filepath.Join(top, "upper"), filepath.Join(top, "secret")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Mkdir(secret, 0o755))
	t.Cleanup(func() { // what is shut must not keep the test from tidying up
		_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() && err == nil {
				return os.Chmod(p, 0o700)
			}
			return nil
		})
	})
	must(t, os.WriteFile(filepath.Join(secret, "f"), []byte("theirs"), 0o600))
	was := listing(t, secret)
	return secret, dir, func() {
		t.Helper()
		if now := listing(t, secret); now != was {
			t.Errorf("outside is now\n%s", now)
		}
		entries, err := os.ReadDir(top)
		if must(t, err); len(entries) != 2 {
			t.Errorf("something was made beside: %v", entries)
		}
		_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if a, serr := os.Stat(filepath.Join(secret, "f")); err == nil && serr == nil {
				if b, err := os.Lstat(p); err == nil && os.SameFile(a, b) {
					t.Errorf("%s is another name of the secret", p)
				}
			}
			return nil
		})
	}
}

// No saved file, whatever it says, makes or changes anything outside of the
// directory that is filled.
func TestForgedFilesStayInside(t *testing.T) {
	for name, make := range map[string]func(f *forged, secret string){
		"a name that leads up":      func(f *forged, _ string) { f.rec(recFile, "..").meta(0o644).numbers(0, 0, 0) },
		"a name with a path":        func(f *forged, _ string) { f.rec(recFile, "../secret/f").meta(0o644).numbers(0, 0, 0) },
		"an absolute name":          func(f *forged, s string) { f.rec(recFile, s+"/f").meta(0o666).numbers(0, 0, 0) },
		"a directory that leads up": func(f *forged, _ string) { f.rec(recDir, "..").meta(0o777); f.WriteByte(recUp) },
		"an empty name":             func(f *forged, _ string) { f.rec(recFile, "").meta(0o644).numbers(0, 0, 0) },
		"a file over a link": func(f *forged, s string) {
			f.rec(recSymlink, "l").meta(0).text(s+"/f").rec(recFile, "l").meta(0o666).numbers(1, 0, 1).WriteString("x")
		},
		"a file through a link": func(f *forged, s string) {
			f.rec(recSymlink, "l").meta(0).text(s).rec(recDir, "l").meta(0o777).rec(recFile, "f").meta(0o666).numbers(0, 0, 0)
		},
		"a whiteout over a link":     func(f *forged, s string) { f.rec(recSymlink, "l").meta(0).text(s+"/g").rec(recWhiteout, "l") },
		"a fifo over a link":         func(f *forged, s string) { f.rec(recSymlink, "l").meta(0).text(s+"/g").rec(recFifo, "l").meta(0o666) },
		"a hard link up":             func(f *forged, _ string) { f.rec(recHard, "h").text("../secret/f") },
		"a hard link to a root path": func(f *forged, s string) { f.rec(recHard, "h").text(s + "/f") },
		"a hard link through a link": func(f *forged, s string) { f.rec(recSymlink, "l").meta(0).text(s).rec(recHard, "h").text("l/f") },
	} {
		t.Run(name, func(t *testing.T) {
			secret, dir, untouched := outside(t)
			f := forge()
			make(f, secret)
			err := unpack(t, f.end(), dir)
			if err == nil {
				t.Error("it was taken")
			}
			untouched()
		})
	}
	// The control: without the checks the same links lead outside.
	t.Run("control", func(t *testing.T) {
		secret, dir, _ := outside(t)
		must(t, os.Symlink(secret, dir+"/l"))
		must(t, os.Link(dir+"/l/f", dir+"/h"))
		must(t, os.WriteFile(dir+"/l/f", []byte("changed"), 0o600))
		if b, _ := os.ReadFile(secret + "/f"); string(b) != "changed" {
			t.Error("a path that is joined and followed stays inside")
		}
	})
}

// What was looked at as a file is not opened as what it has become.
func TestSwappedEntries(t *testing.T) {
	secret, dir, untouched := outside(t)
	p := func(s string) string { return filepath.Join(dir, s) }
	at := open(t, dir)
	for name, swap := range map[string]func() error{
		"a link":         func() error { return os.Symlink(secret+"/f", p("x")) },
		"a fifo":         func() error { return unix.Mkfifo(p("x"), 0o600) },
		"another file":   func() error { return os.WriteFile(p("x"), nil, 0o600) },
		"a linked upper": func() error { return os.Link(secret+"/f", p("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(p("x"))
			must(t, os.WriteFile(p("x"), nil, 0))
			// Its number must not be given to what comes after it.
			held, err := unix.Open(p("x"), unix.O_PATH, 0)
			must(t, err)
			defer unix.Close(held)
			var was unix.Stat_t
			must(t, unix.Lstat(p("x"), &was))
			must(t, os.Remove(p("x")))
			must(t, swap())
			for _, lift := range []bool{false, true} {
				if _, done, err := openLooked(at, "x", &was, lift); err == nil {
					done()
					t.Errorf("it was opened (lift %t)", lift)
				}
			}
			os.Remove(p("x"))
		})
	}
	untouched()
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(forge().rec(recDir, "d").meta(0o755).rec(recFile, "f").meta(0o4755).numbers(10, 2, 3).rec(recUp, "").end())
	f.Add(forge().rec(recSymlink, "l").meta(0).text("../secret").rec(recHard, "h").text("l/f").end())
	f.Add(forge().rec(recOpaque, "d").meta(0).rec(recWhiteout, "w").end())
	f.Add(forge().rec(recSocket, "s").meta(0o7777).rec(recFifo, "p").meta(0).end())
	f.Fuzz(func(t *testing.T, b []byte) {
		_, dir, untouched := outside(t)
		if err := unpack(t, b, dir); err == nil {
			again, err := pack(t, dir, options())
			must(t, err)
			if len(again) > 0 && !bytes.HasPrefix(again, []byte(magic)) {
				t.Error("what was unpacked cannot be saved")
			}
		}
		untouched()
	})
}
