package archivetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
)

// Name is the name of the archives of this package.
const Name = "sha256-0123"

// Record is the record of an archive, for tests that forge it.
type Record struct {
	Blob    string `json:"blob"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
	Files   int64  `json:"files"`
	Entries int    `json:"entries"`
	Owners  bool   `json:"owners"`
}

// Tree writes a small tree and returns its directory.
func Tree(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	must(t, os.MkdirAll(filepath.Join(root, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "d", "text"), []byte(strings.Repeat("text ", 5000)), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "noise"), content(3<<20), 0o600))
	must(t, os.Symlink("d/text", filepath.Join(root, "link")))
	return root
}

// Forge stores an archive with any record and bytes.
func Forge(t *testing.T, b archive.Blobs, r Record, whole []byte) {
	t.Helper()
	text, err := json.Marshal(r)
	must(t, err)
	must(t, b.Put(t.Context(), r.Blob, bytes.NewReader(whole)))
	must(t, b.Put(t.Context(), Name+".json", bytes.NewReader(text)))
}

// saved saves a tree and returns its record and archive.
func saved(t *testing.T, b archive.Blobs) (Record, []byte) {
	t.Helper()
	must(t, archive.Archive{Blobs: b}.Save(t.Context(), Name, Tree(t)))
	var r Record
	must(t, json.Unmarshal(Get(t, b, Name+".json"), &r))
	return r, Get(t, b, r.Blob)
}

// testRound: what is restored is what was saved.
func testRound(t *testing.T, b archive.Blobs) {
	a := archive.Archive{Blobs: b}
	must(t, a.Check(t.Context()))
	if err := a.Restore(t.Context(), Name, t.TempDir()); api.KindOf(err) != api.KindNotFound {
		t.Fatal(err)
	}
	root := Tree(t)
	must(t, a.Save(t.Context(), Name, root))
	must(t, a.Save(t.Context(), Name, "/nonexistent")) // it is there
	to := t.TempDir()
	must(t, a.Restore(t.Context(), Name, to))
	for _, name := range []string{"d/text", "noise"} {
		want, err := os.ReadFile(filepath.Join(root, name))
		must(t, err)
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := os.Readlink(filepath.Join(to, "link")); err != nil || got != "d/text" {
		t.Errorf("link: %q, %v", got, err)
	}
}

// testDamaged: an archive that is not what was saved is refused, wherever it was changed.
func testDamaged(t *testing.T, b archive.Blobs) {
	rec, whole := saved(t, b)
	a := archive.Archive{Blobs: b}
	for what, change := range map[string]func(r *Record, whole []byte) []byte{
		"a bit":             func(_ *Record, w []byte) []byte { w[len(w)/2] ^= 1; return w },
		"shorter":           func(_ *Record, w []byte) []byte { return w[:len(w)-1] },
		"shorter, recorded": func(r *Record, w []byte) []byte { r.Bytes--; return w[:len(w)-1] },
		"longer":            func(_ *Record, w []byte) []byte { return append(w, 0) },
		"longer, recorded":  func(r *Record, w []byte) []byte { r.Bytes++; return append(w, 0) },
		"another hash":      func(r *Record, w []byte) []byte { r.SHA256 = strings.Repeat("0", 64); return w },
		"no hash":           func(r *Record, w []byte) []byte { r.SHA256 = ""; return w },
		"fewer entries":     func(r *Record, w []byte) []byte { r.Entries = 1; return w },
		"fewer bytes":       func(r *Record, w []byte) []byte { r.Files = 1; return w },
		"too many bytes":    func(r *Record, w []byte) []byte { r.Files = 1 << 50; return w },
		"more bytes":        func(r *Record, w []byte) []byte { r.Files++; return w },
		"no size":           func(r *Record, w []byte) []byte { r.Bytes = 0; return w },
		"not compressed":    func(r *Record, _ []byte) []byte { return recorded(r, bytes.Repeat([]byte("x"), 4096)) },
		"out of the tree":   func(r *Record, _ []byte) []byte { return recorded(r, hostile(t, "../out", "")) },
		"through a link":    func(r *Record, _ []byte) []byte { return recorded(r, hostile(t, "l/out", t.TempDir())) },
	} {
		r := rec
		w := change(&r, slices.Clone(whole))
		Forge(t, b, r, w)
		to := t.TempDir()
		if err := a.Restore(t.Context(), Name, to); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(to), "out")); err == nil {
			t.Errorf("%s: it wrote outside of its directory", what)
		}
	}
	for what, text := range map[string]string{
		"nothing": "{}", "no JSON": "x", "another archive": `{"blob":"other.tar.zst","bytes":1}`,
		"a path": `{"blob":"` + Name + `-../../0123456789abcd.tar.zst","bytes":1}`, "too long": strings.Repeat(" ", 5000) + "{}",
	} {
		must(t, b.Put(t.Context(), Name+".json", strings.NewReader(text)))
		if err := a.Restore(t.Context(), Name, t.TempDir()); api.KindOf(err) != api.KindInvalid {
			t.Errorf("a record with %s: %v", what, err)
		}
	}
	// The control: nothing else refuses it.
	Forge(t, b, rec, whole)
	must(t, a.Restore(t.Context(), Name, t.TempDir()))
}

// recorded makes a record that is true of an archive.
func recorded(r *Record, whole []byte) []byte {
	h := sha256.Sum256(whole)
	r.Bytes, r.SHA256 = int64(len(whole)), hex.EncodeToString(h[:])
	r.Files, r.Entries = 100, 100
	return whole
}

// hostile returns an archive with one file, after a link of the name l if there is a target.
func hostile(t *testing.T, name, link string) []byte {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	must(t, err)
	w := tar.NewWriter(z)
	if link != "" {
		must(t, w.WriteHeader(&tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: link, Mode: 0o777}))
	}
	must(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1, Mode: 0o600}))
	_, err = w.Write([]byte("x"))
	must(t, err)
	must(t, w.Close())
	must(t, z.Close())
	return b.Bytes()
}

// testRefused: a tree that cannot be saved leaves nothing.
func testRefused(t *testing.T, b archive.Blobs) {
	root := Tree(t)
	must(t, os.Chmod(filepath.Join(root, "noise"), 0o755|os.ModeSetuid))
	a := archive.Archive{Blobs: b}
	if err := a.Save(t.Context(), Name, root); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("a setuid file: %v", err)
	}
	if names, err := b.List(t.Context(), "", 10); err != nil || len(names) > 0 {
		t.Errorf("left %q, %v", names, err)
	}
	if has, err := a.Has(t.Context(), Name); has || err != nil {
		t.Errorf("it is there: %v, %v", has, err)
	}
}
