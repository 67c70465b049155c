package upper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/storage/layer/mount"
)

// layered writes a layer, and mounts it.
func layered(t *testing.T, write func(f *os.File) error) string {
	t.Helper()
	m, err := mount.Find(t.Context(), t.TempDir())
	if err != nil {
		t.Skipf("this host cannot mount images: %v", err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "layer"))
	must(t, err)
	defer f.Close()
	must(t, write(f))
	img, err := m.Mount(f.Name())
	must(t, err)
	t.Cleanup(img.Close)
	return img.Path()
}

func layerOptions() Options {
	o := options()
	o.Compare = 1 << 30
	return o
}

// TestLayer: the kernel shows a layer as the tree from which it was written.
func TestLayer(t *testing.T) {
	from := grown(t)
	must(t, os.Remove(filepath.Join(from, "sparse"))) // it is too large for a layer
	tree := Tree{Name: Root, Dir: open(t, from)}
	want := listing(t, from)
	got := listing(t, layered(t, func(f *os.File) error {
		_, err := WriteLayer(t.Context(), f, tree, layerOptions())
		return err
	}))
	if got != want {
		t.Errorf("the layer has\n%s\nnot\n%s", got, want)
	}
	got = listing(t, layered(t, func(f *os.File) error {
		_, now, err := WriteLayerSince(t.Context(), f, tree, layerOptions(), nil)
		if err == nil && now == nil {
			t.Error("the tree is not remembered")
		}
		return err
	}))
	if got != want {
		t.Errorf("the layer that is remembered has\n%s\nnot\n%s", got, want)
	}
}

// TestLayerSince: a layer has what has changed, and nothing is written if nothing has.
func TestLayerSince(t *testing.T) {
	dir := t.TempDir()
	p := func(s string) string { return filepath.Join(dir, s) }
	for _, d := range []string{"same", "changed", "gone", "again"} {
		must(t, os.Mkdir(p(d), 0o755))
		for i := range 3 {
			must(t, os.WriteFile(p(fmt.Sprintf("%s/%d", d, i)), []byte("was"), 0o644))
		}
	}
	must(t, unix.Mknod(p("same/hidden"), unix.S_IFCHR, 0))
	if !marked(t, p("again"), opaqueMark, "y") {
		return
	}
	tree := Tree{Name: Root, Dir: open(t, dir)}
	write := func(was *Seen) (LayerInfo, *Seen, error) {
		f, err := os.Create(filepath.Join(t.TempDir(), "layer"))
		must(t, err)
		defer f.Close()
		return WriteLayerSince(t.Context(), f, tree, layerOptions(), was)
	}
	_, was, err := write(nil)
	must(t, err)
	if info, now, err := write(was); err != nil || now == nil || info != (LayerInfo{}) {
		t.Errorf("of what has not changed there is %+v, %v", info, err)
	}
	var st unix.Stat_t
	must(t, unix.Stat(p("changed/1"), &st))
	must(t, os.WriteFile(p("changed/1"), []byte("now"), 0o644))
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, p("changed/1"), []unix.Timespec{st.Atim, st.Mtim}, 0))
	must(t, os.Remove(p("changed/2")))
	must(t, os.RemoveAll(p("gone")))
	must(t, os.Remove(p("again/0")))
	top := layered(t, func(f *os.File) error {
		_, _, err := WriteLayerSince(t.Context(), f, tree, layerOptions(), was)
		return err
	})
	for name, want := range map[string]string{"changed/1": "now", "changed/2": "whiteout", "gone": "whiteout", "again/0": "whiteout", "changed/0": "", "same": "", "again/1": ""} {
		var st unix.Stat_t
		err := unix.Lstat(filepath.Join(top, name), &st)
		got := ""
		switch {
		case err == nil && isWhiteout(&st):
			got = "whiteout"
		case err == nil:
			b, err := os.ReadFile(filepath.Join(top, name))
			must(t, err)
			got = string(b)
		}
		if got != want {
			t.Errorf("%s is %q in the layer, not %q", name, got, want)
		}
	}
	var v [8]byte
	if n, err := unix.Lgetxattr(filepath.Join(top, "again"), opaqueMark, v[:]); err == nil {
		t.Errorf("a directory hides what it was: %q", v[:n])
	}
	// What a whiteout hid is shown again: no layer can do that.
	must(t, os.Remove(p("same/hidden")))
	if _, _, err := write(was); !errors.Is(err, ErrNoLayer) {
		t.Errorf("%v", err)
	}
	o := layerOptions()
	for name, o := range map[string]Options{"to compare": {ID: o.ID, Entries: o.Entries, Bytes: o.Bytes, Compare: 5}, "to write": {ID: o.ID, Entries: o.Entries, Bytes: 5, Compare: o.Compare}} {
		f, err := os.Create(filepath.Join(t.TempDir(), "layer"))
		must(t, err)
		if _, _, err := WriteLayerSince(t.Context(), f, tree, o, nil); !errors.Is(err, ErrNoLayer) {
			t.Errorf("%s too much: %v", name, err)
		}
		f.Close()
	}
}

// TestMerge: several directories are saved as the overlay of them is, and whiteouts only where something is under them.
func TestMerge(t *testing.T) {
	type files map[string]string // "w" is a whiteout, "o" an opaque directory, "d" a directory
	build := func(f files) int {
		dir := t.TempDir()
		for _, name := range []string{"a", "a/b", "c"} {
			kind, ok := f[name]
			if !ok {
				continue
			}
			p := filepath.Join(dir, name)
			switch kind {
			case "w":
				must(t, unix.Mknod(p, unix.S_IFCHR, 0))
			case "d", "o":
				must(t, os.Mkdir(p, 0o755))
				if kind == "o" {
					marked(t, p, opaqueMark, "y")
				}
			default:
				must(t, os.WriteFile(p, []byte(kind), 0o644))
			}
		}
		return open(t, dir)
	}
	for name, tc := range map[string]struct {
		layers      []files
		under, want files
	}{
		"the upper one wins":               {[]files{{"c": "1"}, {"c": "2"}}, nil, files{"c": "1"}},
		"all are there":                    {[]files{{"a": "d"}, {"c": "2"}, {"a": "d", "a/b": "3"}}, nil, files{"a": "d", "a/b": "3", "c": "2"}},
		"a hidden file":                    {[]files{{"c": "w"}, {"c": "2"}}, nil, files{}},
		"a file that is hidden under both": {[]files{{"c": "w"}, {"c": "2"}}, files{"c": "3"}, files{"c": "w"}},
		"a hidden file of what is under":   {[]files{{"a": "d", "a/b": "w"}, {}}, files{"a": "d", "a/b": "3"}, files{"a": "d", "a/b": "w"}},
		"a whiteout under a file":          {[]files{{"c": "1"}, {"c": "w"}}, files{"c": "3"}, files{"c": "1"}},
		"an opaque directory":              {[]files{{"a": "o"}, {"a": "d", "a/b": "2"}}, files{"a": "d", "a/b": "3"}, files{"a": "o"}},
		"one that is opaque below":         {[]files{{"a": "d", "a/b": "w"}, {"a": "o", "a/b": "2"}}, files{"a": "d", "a/b": "3"}, files{"a": "o"}},
		"a directory over a file":          {[]files{{"a": "d"}, {"a": "2"}}, files{"a": "d", "a/b": "3"}, files{"a": "o"}},
		"a directory over a whiteout":      {[]files{{"a": "d", "a/b": "1"}, {"a": "w"}}, files{"a": "d"}, files{"a": "o", "a/b": "1"}},
		"a file over a directory":          {[]files{{"a": "1"}, {"a": "d", "a/b": "2"}}, nil, files{"a": "1"}},
		"what is hidden under":             {[]files{{"a": "d", "a/b": "w"}, {}}, files{"a": "o"}, files{"a": "d"}},
		"a file of what is under":          {[]files{{}, {}}, files{"c": "3"}, files{}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := Tree{Name: Root}
			for i, f := range tc.layers {
				if fd := build(f); i == 0 {
					tree.Dir = fd
				} else {
					tree.Below = append(tree.Below, fd)
				}
			}
			tree.Under = []int{build(tc.under)}
			got := files{}
			must(t, walk(context.Background(), tree, func() *Options { o := options(); return &o }(), &lister{t: t, got: got}))
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// lister is a sink that lists what it gets.
type lister struct {
	t   *testing.T
	in  []string
	got map[string]string
}

func (l *lister) put(name, kind string) error {
	l.got[filepath.Join(append(append([]string{}, l.in...), name)...)] = kind
	return nil
}
func (l *lister) tree(string, meta) error { return nil }
func (l *lister) dir(name string, _ meta, opaque bool) error {
	kind := "d"
	if opaque {
		kind = "o"
	}
	l.put(name, kind)
	l.in = append(l.in, name)
	return nil
}
func (l *lister) up() error {
	if len(l.in) > 0 {
		l.in = l.in[:len(l.in)-1]
	}
	return nil
}
func (l *lister) file(name string, _ meta, f content) error {
	b := make([]byte, f.size)
	_, err := unix.Pread(f.fd, b, 0)
	must(l.t, err)
	return l.put(name, string(b))
}
func (l *lister) hard(name, first string) error                        { return l.put(name, "hard "+first) }
func (l *lister) symlink(name string, _ meta, t string, _ again) error { return l.put(name, "link "+t) }
func (l *lister) special(_ byte, name string, _ meta, _ again) error   { return l.put(name, "special") }
func (l *lister) whiteout(name string) error                           { return l.put(name, "w") }
