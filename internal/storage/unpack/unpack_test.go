package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
)

// entry is one entry of a test archive.
type entry struct {
	tar.Header
	data string
}

func dir(name string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}}
}
func file(name, data string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, data: data}
}
func sym(name, to string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}}
}
func hard(name, to string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}}
}
func (e entry) with(f func(*tar.Header)) entry {
	f(&e.Header)
	return e
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.Header
		h.ModTime = time.Unix(1_700_000_000, 0)
		h.Size = int64(len(e.data))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree lists what is below a directory, one line for each entry.
func tree(t testing.TB, root string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			line := "d " + rel
			var v [8]byte
			if n, err := unix.Lgetxattr(p, opaque, v[:]); err == nil && n == 1 && v[0] == 'y' {
				line += " opaque"
			}
			out = append(out, line)
		case unix.S_IFREG:
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("f %s %.20s", rel, b))
		case unix.S_IFLNK:
			to, _ := os.Readlink(p)
			out = append(out, "l "+rel+" "+to)
		case unix.S_IFCHR:
			out = append(out, fmt.Sprintf("w %s %d", rel, st.Rdev))
		default:
			out = append(out, "? "+rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(out)
	return out
}

func options() Options { return Options{Owners: os.Geteuid() == 0} }

// apply applies an archive to a directory below a place with a file that must not change.
func apply(t testing.TB, b []byte, o Options) (root string, res Result, err error) {
	t.Helper()
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, "secret"), []byte("unchanged"), 0o600); err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(top, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	res, err = Apply(context.Background(), bytes.NewReader(b), root, o)
	names, derr := os.ReadDir(top)
	secret, serr := os.ReadFile(filepath.Join(top, "secret"))
	if derr != nil || serr != nil || len(names) != 2 || string(secret) != "unchanged" {
		t.Errorf("outside of the directory something changed: %v, %q, %v %v", names, secret, derr, serr)
	}
	return root, res, err
}

func TestTree(t *testing.T) {
	long := strings.Repeat("n", 200)
	deep := strings.Repeat("directory-of-some-length/", 40)
	for name, tc := range map[string]struct {
		in   []entry
		want []string
	}{
		"plain": {[]entry{dir("./"), dir("./a/"), file("./a/b", "x"), sym("a/c", "/etc/passwd"), hard("d", "a/b")},
			[]string{"d a", "f a/b x", "f d x", "l a/c /etc/passwd"}},
		"absolute names":        {[]entry{file("/a/b", "x"), hard("/c", "/a/b")}, []string{"d a", "f a/b x", "f c x"}},
		"missing parents":       {[]entry{file("a/b/c", "x")}, []string{"d a", "d a/b", "f a/b/c x"}},
		"whiteout":              {[]entry{file("a/.wh.b", "")}, []string{"d a", "w a/b 0"}},
		"opaque":                {[]entry{dir("a"), file("a/.wh..wh..opq", ""), file("a/b", "x")}, []string{"d a opaque", "f a/b x"}},
		"opaque without parent": {[]entry{file("a/.wh..wh..opq", "")}, []string{"d a opaque"}},
		"metadata of aufs":      {[]entry{file(".wh..wh.plnk", ""), file("a", "x")}, []string{"f a x"}},
		"whiteout after file":   {[]entry{file("a", "x"), file(".wh.a", "")}, []string{"f a x"}},
		"whiteout before file":  {[]entry{file(".wh.a", ""), file("a", "x")}, []string{"f a x"}},
		"whiteout after dir":    {[]entry{file("a/b", "x"), file(".wh.a", "")}, []string{"d a opaque", "f a/b x"}},
		"whiteout before dir":   {[]entry{file(".wh.a", ""), dir("a"), file("a/b", "x")}, []string{"d a opaque", "f a/b x"}},
		"whiteout before path":  {[]entry{file(".wh.a", ""), file("a/b", "x")}, []string{"d a opaque", "f a/b x"}},
		"duplicates":            {[]entry{file("a", "1"), file("a", "2"), sym("b", "x"), file("b", "3"), dir("c"), dir("c"), dir("e"), file("e", "4")}, []string{"d c", "f a 2", "f b 3", "f e 4"}},
		"link to itself":        {[]entry{file("a", "x"), hard("a", "a")}, []string{"f a x"}},
		"link to a link":        {[]entry{sym("a", "/etc/passwd"), hard("b", "a")}, []string{"l a /etc/passwd", "l b /etc/passwd"}},
		"link cycle":            {[]entry{sym("a", "b"), sym("b", "a")}, []string{"l a b", "l b a"}},
		"devices": {[]entry{
			{Header: tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}},
			{Header: tar.Header{Typeflag: tar.TypeChar, Name: "white"}},
			{Header: tar.Header{Typeflag: tar.TypeBlock, Name: "disk", Devmajor: 8}},
			{Header: tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}}, file("a", "x")}, []string{"f a x"}},
		"long names": {[]entry{file(long, "x"), file(deep+"f", "y")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root, res, err := apply(t, archive(t, tc.in...), options())
			if err != nil {
				t.Fatal(err)
			}
			if res.Entries != len(tc.in) {
				t.Errorf("%d entries, want %d", res.Entries, len(tc.in))
			}
			if got := tree(t, root); tc.want != nil && strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if name == "long names" {
				for _, p := range []string{long, deep + "f"} {
					if _, err := os.Stat(filepath.Join(root, p)); err != nil {
						t.Error(err)
					}
				}
			}
			if name == "devices" && res.Skipped != 4 {
				t.Errorf("%d skipped", res.Skipped)
			}
		})
	}
}

func TestAttributes(t *testing.T) {
	xattr := func(name, value string) func(*tar.Header) {
		return func(h *tar.Header) {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords[paxXattr+name] = value
		}
	}
	root, res, err := apply(t, archive(t,
		dir("d").with(func(h *tar.Header) { h.Mode, h.Uid, h.Gid = 0o2555, 1000, 1001 }),
		file("d/su", "x").with(func(h *tar.Header) { h.Mode, h.Uid = 0o6755, 0 }),
		file("d/own", "x").with(func(h *tar.Header) { h.Mode, h.Uid, h.Gid = 0o600, 70000, -1 }),
		file("x", "x").with(xattr("user.note", "yes")).with(xattr("user.overlay.opaque", "y")).with(xattr("user.overlay.whiteout", "y")).
			with(xattr("security.capability", "\x01\x00\x00\x02")).with(xattr("trusted.overlay.redirect", "/")).with(xattr("system.posix_acl_access", "\x02")),
	), options())
	if err != nil {
		t.Fatal(err)
	}
	stat := func(name string) (st unix.Stat_t) {
		if err := unix.Lstat(filepath.Join(root, name), &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	root0 := os.Geteuid() == 0
	want := uint32(0o2555)
	if !root0 {
		want |= 0o700
	}
	if st := stat("d"); st.Mode&0o7777 != want || st.Mtim.Sec != 1_700_000_000 || root0 && (st.Uid != 1000 || st.Gid != 1001) {
		t.Errorf("directory: %+v", st)
	}
	if st := stat("d/su"); st.Mode&0o7777 != 0o755 {
		t.Errorf("setuid file: %o", st.Mode)
	}
	if st := stat("d/own"); root0 && (st.Uid != nobody || st.Gid != nobody) {
		t.Errorf("ids outside of the range: %+v", st)
	}
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(filepath.Join(root, "x"), buf)
	if err != nil || string(buf[:n]) != "user.note\x00" {
		t.Errorf("attributes: %q %v", buf[:max(n, 0)], err)
	}
	if res.Dropped != 6 {
		t.Errorf("%d dropped, want 6", res.Dropped)
	}
}

func TestHostile(t *testing.T) {
	many := make([]entry, 11)
	for i := range many {
		many[i] = file(fmt.Sprint("f", i), "")
	}
	deep := strings.Repeat("d/", 200)
	for name, tc := range map[string]struct {
		in      []entry
		control []entry // the same without the attack
	}{
		"path escape":        {[]entry{file("../secret", "x")}, []entry{file("secret", "x")}},
		"path escape inside": {[]entry{file("a/../../secret", "x")}, []entry{file("a/secret", "x")}},
		"dots that stay":     {[]entry{file("a/../b", "x")}, []entry{file("b", "x")}},
		"link escape":        {[]entry{sym("a", ".."), file("a/secret", "x")}, []entry{dir("a"), file("a/secret", "x")}},
		"absolute link":      {[]entry{sym("a", "/tmp"), file("a/secret", "x")}, []entry{dir("a"), file("a/secret", "x")}},
		"link in the layer":  {[]entry{dir("b"), sym("a", "b"), file("a/c", "x")}, []entry{dir("b"), file("b/c", "x")}},
		"hard link escape":   {[]entry{hard("a", "../secret")}, []entry{file("s", "x"), hard("a", "s")}},
		"hard link through a link": {[]entry{sym("up", ".."), hard("a", "up/secret")},
			[]entry{file("up/secret", "x"), hard("a", "up/secret")}},
		"write through a hard link to a link": {[]entry{sym("a", "../secret"), hard("b", "a"), file("b/x", "x")}, []entry{dir("b"), file("b/x", "x")}},
		"hard link to a directory":            {[]entry{dir("d"), hard("a", "d")}, []entry{file("d", ""), hard("a", "d")}},
		"hard link to a whiteout":             {[]entry{file(".wh.d", ""), hard("a", "d")}, []entry{file("d", ""), hard("a", "d")}},
		"hard link to nothing":                {[]entry{hard("a", "b")}, []entry{file("b", ""), hard("a", "b")}},
		"hard link cycle":                     {[]entry{hard("a", "b"), hard("b", "a")}, []entry{file("a", ""), hard("b", "a"), hard("a", "b")}},
		"whiteout escape":                     {[]entry{file("a/.wh...", "")}, []entry{file("a/.wh.b", "")}},
		"whiteout of itself":                  {[]entry{file("a/.wh..", "")}, []entry{file("a/.wh.b", "")}},
		"whiteout through a link":             {[]entry{sym("a", ".."), file("a/.wh.secret", "")}, []entry{dir("a"), file("a/.wh.secret", "")}},
		"opaque through a link":               {[]entry{sym("a", ".."), file("a/.wh..wh..opq", "")}, []entry{dir("a"), file("a/.wh..wh..opq", "")}},
		"file as directory":                   {[]entry{file("a", "x"), file("a/b", "x")}, []entry{dir("a"), file("a/b", "x")}},
		"top is a link":                       {[]entry{sym("./", "/tmp"), file("a", "x")}, []entry{dir("./"), file("a", "x")}},
		"file over a full directory":          {[]entry{file("a/b", "x"), file("a", "x")}, []entry{dir("a"), file("a", "x")}},
		"too deep":                            {[]entry{file(deep+"f", "x")}, []entry{file("d/f", "x")}},
		"too many entries":                    {many, many[:10]},
		"too large":                           {[]entry{file("a", strings.Repeat("x", 1<<20))}, []entry{file("a", "x")}},
		"long name":                           {[]entry{file(strings.Repeat("n", 256), "x")}, []entry{file(strings.Repeat("n", 255), "x")}},
		"long link":                           {[]entry{sym("a", strings.Repeat("n", 4096))}, []entry{sym("a", "n")}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.MaxEntries, o.MaxBytes = 10, 256<<10
			if _, _, err := apply(t, archive(t, tc.in...), o); api.KindOf(err) != api.KindInvalid {
				t.Errorf("the attack: %v", err)
			}
			if _, _, err := apply(t, archive(t, tc.control...), o); err != nil {
				t.Errorf("the control: %v", err)
			}
		})
	}
}

// A sparse entry that claims more than the limit is refused before anything is written.
func TestHugeSize(t *testing.T) {
	b := archive(t, file("a", "x"))
	copy(b[124:136], "77777777777\x00") // 8 GiB
	sum := 0
	copy(b[148:156], "        ")
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	o := options()
	o.MaxBytes = 1 << 30
	root, _, err := apply(t, b, o)
	if api.KindOf(err) != api.KindInvalid || len(tree(t, root)) > 0 {
		t.Errorf("%v", err)
	}
	o.MaxBytes = 16 << 30 // the control: the size alone is not the reason
	if _, _, err := apply(t, b, o); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("truncated: %v", err)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Apply(ctx, bytes.NewReader(archive(t, file("a", "x"))), t.TempDir(), options()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestDecompress(t *testing.T) {
	plain := archive(t, file("a", "x"))
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	g.Write(plain)
	g.Close()
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	z.Write(plain)
	z.Close()
	for name, b := range map[string][]byte{"plain": plain, "gzip": gz.Bytes(), "zstd": zs.Bytes()} {
		r, err := Decompress(bytes.NewReader(b))
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		r.Close()
	}
	if r, err := Decompress(bytes.NewReader(nil)); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
	if r, err := Decompress(bytes.NewReader(gz.Bytes()[:40])); err == nil {
		if _, err := io.ReadAll(r); err == nil {
			t.Error("a truncated stream was read")
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add(archive(f, dir("a"), file("a/b", "x"), sym("c", ".."), hard("d", "a/b"), file("a/.wh.e", ""), file("a/.wh..wh..opq", "")))
	f.Add(archive(f, sym("a", ".."), file("a/secret", "x")))
	f.Add(archive(f, file("../secret", "x"), hard("x", "../secret")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		o := options()
		o.MaxBytes, o.MaxEntries, o.MaxDepth = 1<<20, 100, 20
		root, res, err := apply(t, b, o)
		if res.Bytes > o.MaxBytes {
			t.Errorf("%d bytes", res.Bytes)
		}
		for _, line := range tree(t, root) {
			if line[0] == '?' || line[0] == 'w' && !strings.HasSuffix(line, " 0") {
				t.Errorf("%s (%v)", line, err)
			}
		}
	})
}
