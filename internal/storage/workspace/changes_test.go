package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer"
)

// base is what the tests' layer holds.
func base(t *testing.T) func(string) {
	return func(root string) {
		put(t, root, map[string]string{"a": "a\n", "b": "b\n", "d/x": "x\n", "d/y": "y\n", "d/e/z": "z\n", "l": "->a", ".git/config": "[core]\n", "big": strings.Repeat("b", 200_000)})
	}
}

func whiteoutAt(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, unix.Mknod(path, unix.S_IFCHR, 0))
}

// opaque hides what a directory lies on, as an overlay does it.
func opaque(t *testing.T, path string) {
	t.Helper()
	if err := unix.Setxattr(path, prefix+"opaque", []byte("y"), 0); err != nil {
		t.Skipf("this file system keeps no user attributes: %v", err)
	}
}

// told is changes and refusals as text.
func told(t *testing.T, c *Changes) (changes, refused string) {
	t.Helper()
	var b, r strings.Builder
	for _, c := range c.List {
		if c.Delete {
			fmt.Fprintf(&b, "-%s\n", c.Path)
			continue
		}
		f, err := c.Open()
		if err != nil {
			t.Errorf("%s: %v", c.Path, err)
			continue
		}
		text, err := io.ReadAll(f)
		f.Close()
		if err != nil || int64(len(text)) != c.Size {
			t.Errorf("%s: %d bytes of %d, %v", c.Path, len(text), c.Size, err)
		}
		fmt.Fprintf(&b, "%s %s %.20q\n", c.Path, c.Mode, text)
	}
	for _, c := range c.Refused {
		fmt.Fprintf(&r, "%s: %s\n", c.Path, c.Why)
	}
	return b.String(), r.String()
}

func TestChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(t *testing.T, upper string)
		want    string
		refused string // a part of it; nothing is refused when it is empty
	}{
		"nothing": {func(t *testing.T, u string) {}, "", ""},
		"new, changed and deleted": {func(t *testing.T, u string) {
			put(t, u, map[string]string{"new": "n", "deep/er/new": "n", "a": "other"})
			whiteoutAt(t, u+"/b")
			whiteoutAt(t, u+"/d/x")
		}, "a regular \"other\"\n-b\n-d/x\ndeep/er/new regular \"n\"\nnew regular \"n\"\n", ""},
		"touched": {func(t *testing.T, u string) {
			put(t, u, map[string]string{"a": "a\n", "l": "->a", "d/e/z": "z\n", "big": strings.Repeat("b", 200_000)})
		}, "", ""},
		"changed at the end": {func(t *testing.T, u string) {
			put(t, u, map[string]string{"big": strings.Repeat("b", 199_999) + "c"})
		}, "big regular \"bbbbbbbbbbbbbbbbbbbb\"\n", ""},
		"modes": {func(t *testing.T, u string) {
			put(t, u, map[string]string{"a": "a\n", "b": "b\n"})
			must(t, os.Chmod(u+"/a", 0o700))
			must(t, os.Chmod(u+"/b", 0o600))
		}, "a executable \"a\\n\"\n", ""},
		"a directory is deleted": {func(t *testing.T, u string) { whiteoutAt(t, u+"/d") }, "-d/e/z\n-d/x\n-d/y\n", ""},
		"nothing is deleted":     {func(t *testing.T, u string) { whiteoutAt(t, u+"/no"); whiteoutAt(t, u+"/new/no") }, "", ""},
		"a directory is replaced": {func(t *testing.T, u string) {
			put(t, u, map[string]string{"d/x": "x\n", "d/new": "n"})
			opaque(t, u+"/d")
		}, "-d/e/z\nd/new regular \"n\"\n-d/y\n", ""},
		"an empty directory":         {func(t *testing.T, u string) { put(t, u, map[string]string{"empty/": ""}) }, "", ""},
		"a directory becomes empty":  {func(t *testing.T, u string) { put(t, u, map[string]string{"d/": ""}); opaque(t, u+"/d") }, "-d/e/z\n-d/x\n-d/y\n", ""},
		"a file becomes a directory": {func(t *testing.T, u string) { put(t, u, map[string]string{"a/in": "i"}) }, "-a\na/in regular \"i\"\n", ""},
		"a file becomes empty":       {func(t *testing.T, u string) { put(t, u, map[string]string{"a/": ""}) }, "-a\n", ""},
		"a directory becomes a file": {func(t *testing.T, u string) { put(t, u, map[string]string{"d": "f"}) }, "d regular \"f\"\n-d/e/z\n-d/x\n-d/y\n", ""},
		"a directory becomes a link": {func(t *testing.T, u string) { put(t, u, map[string]string{"d": "->/etc"}) }, "d symlink \"/etc\"\n-d/e/z\n-d/x\n-d/y\n", ""},
		"a file becomes a link":      {func(t *testing.T, u string) { put(t, u, map[string]string{"a": "->b"}) }, "a symlink \"b\"\n", ""},
		"a link becomes a file":      {func(t *testing.T, u string) { put(t, u, map[string]string{"l": "a\n"}) }, "l regular \"a\\n\"\n", ""},
		"a link goes elsewhere":      {func(t *testing.T, u string) { put(t, u, map[string]string{"l": "->../../../etc/shadow"}) }, "l symlink \"../../../etc/shadow\"\n", ""},
		"git is left alone at the top": {func(t *testing.T, u string) {
			put(t, u, map[string]string{".git/config": "[alias]", ".git/hooks/x": "x"})
		}, "", ""},
		"git is deleted":       {func(t *testing.T, u string) { whiteoutAt(t, u+"/.git") }, "", ""},
		"git is a link":        {func(t *testing.T, u string) { put(t, u, map[string]string{".git": "->/etc"}) }, "", ""},
		"git elsewhere":        {func(t *testing.T, u string) { put(t, u, map[string]string{"sub/.git/config": "x"}) }, "", "sub/.git: the name is reserved for git"},
		"git in other letters": {func(t *testing.T, u string) { put(t, u, map[string]string{".GIT/config": "x"}) }, "", ".GIT: the name is reserved for git"},
		"git of other file systems": {func(t *testing.T, u string) {
			put(t, u, map[string]string{"GIT~1/config": "x", ".g\u200cit/x": "x", ".git./x": "x", ".git::$INDEX_ALLOCATION/x": "x"})
		}, "", "GIT~1: the name is reserved for git"},
		"fifo":   {func(t *testing.T, u string) { must(t, unix.Mkfifo(u+"/p", 0o600)) }, "", "p: it is a fifo"},
		"socket": {func(t *testing.T, u string) { must(t, unix.Mknod(u+"/s", unix.S_IFSOCK|0o600, 0)) }, "", "s: it is a socket"},
		"setuid": {func(t *testing.T, u string) {
			put(t, u, map[string]string{"s": "x"})
			must(t, unix.Chmod(u+"/s", 0o4755))
		}, "", "s: it has a setuid"},
		"setgid": {func(t *testing.T, u string) {
			put(t, u, map[string]string{"s": "x"})
			must(t, unix.Chmod(u+"/s", 0o2755))
		}, "", "s: it has a setuid"},
		"unread":              {func(t *testing.T, u string) { put(t, u, map[string]string{"s": "x"}); must(t, os.Chmod(u+"/s", 0)) }, "", "s: its owner may not"},
		"no text":             {func(t *testing.T, u string) { put(t, u, map[string]string{"\xff\xfe": "x", "d\xff/x": "x"}) }, "", `"d\xff": its name`},
		"a target of no text": {func(t *testing.T, u string) { put(t, u, map[string]string{"s": "->\xff"}) }, "", "s: its target is no"},
		"a huge file": {func(t *testing.T, u string) {
			put(t, u, map[string]string{"s": "x"})
			must(t, os.Truncate(u+"/s", 1<<40))
		}, "", "s: it has 1099511627776 bytes"},
		"deep": {func(t *testing.T, u string) {
			put(t, u, map[string]string{strings.Repeat("n/", 100) + "f": "x"})
		}, "", "nested 65 levels deep"},
		"a redirect":            {func(t *testing.T, u string) { odd(t, u, "dir/", "redirect", "/../../../../etc") }, "", "dir: it has the unexpected attribute"},
		"a relative redirect":   {func(t *testing.T, u string) { odd(t, u, "dir/", "redirect", "d") }, "", "dir: it has the unexpected attribute"},
		"metadata alone":        {func(t *testing.T, u string) { odd(t, u, "meta", "metacopy", "") }, "", "meta: it has the unexpected attribute"},
		"a whiteout attribute":  {func(t *testing.T, u string) { odd(t, u, "a", "whiteout", "y") }, "", "a: it has the unexpected attribute"},
		"an opaque file":        {func(t *testing.T, u string) { odd(t, u, "a", "opaque", "y") }, "", "a: it has the unexpected attribute"},
		"opaque in other words": {func(t *testing.T, u string) { odd(t, u, "d/", "opaque", "x") }, "", "d: its attribute"},
		"unknown":               {func(t *testing.T, u string) { odd(t, u, "a", "something", "y") }, "", "a: it has the unexpected attribute"},
		"a guest's own":         {func(t *testing.T, u string) { odd(t, u, "a", "overlay.redirect", "/etc") }, "a regular \"odd\"\n", ""},
		"what overlays write":   {func(t *testing.T, u string) { odd(t, u, "a", "origin", "\x00\xfb"); odd(t, u, "d/", "impure", "y") }, "a regular \"odd\"\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, base(t))
			id, upper := f.create(t)
			test.change(t, upper)
			c, err := f.Changes(t.Context(), id, Limits{})
			must(t, err)
			defer c.Close()
			got, refused := told(t, c)
			if got != test.want {
				t.Errorf("changes:\n%swant:\n%s", got, test.want)
			}
			if (refused == "") != (test.refused == "") || !strings.Contains(refused, test.refused) {
				t.Errorf("refused: %s; want %q", refused, test.refused)
			}
			if !c.Complete {
				t.Error("it is not complete")
			}
		})
	}
}

// The .git of each repository of a workspace is left out, whatever was done to it.
func TestChangesOfSeveralRepositories(t *testing.T) {
	layers := func(root string) {
		put(t, root, map[string]string{"lib/x": "x\n", "lib/.git/config": "[core]\n", "web.git/y": "y\n", "web.git/.git/config": "[core]\n"})
	}
	for name, test := range map[string]struct {
		change        func(u string)
		want, refused string
	}{
		"written": {func(u string) {
			put(t, u, map[string]string{"lib/.git/index": "i", "web.git/.git/hooks/x": "x", "lib/x": "new"})
		}, "lib/x regular \"new\"\n", ""},
		"deleted":           {func(u string) { whiteoutAt(t, u+"/lib/.git"); whiteoutAt(t, u+"/web.git") }, "-web.git/y\n", ""},
		"replaced":          {func(u string) { put(t, u, map[string]string{"lib/x": "x\n"}); opaque(t, u+"/lib") }, "", ""},
		"a link":            {func(u string) { put(t, u, map[string]string{"lib/.git": "->/etc"}) }, "", ""},
		"at the top":        {func(u string) { put(t, u, map[string]string{".git/config": "x"}) }, "", ""},
		"somewhere else":    {func(u string) { put(t, u, map[string]string{"lib/sub/.git/config": "x"}) }, "", "lib/sub/.git: the name is reserved"},
		"another directory": {func(u string) { put(t, u, map[string]string{"other/.git/config": "x"}) }, "", "other/.git: the name is reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, layers)
			id, upper := f.create(t)
			test.change(upper)
			c, err := f.Changes(t.Context(), id, Limits{Repositories: []string{"lib", "web.git"}})
			must(t, err)
			defer c.Close()
			got, refused := told(t, c)
			if got != test.want || (refused == "") != (test.refused == "") || !strings.Contains(refused, test.refused) {
				t.Errorf("changes:\n%srefused: %s", got, refused)
			}
		})
	}
}

// odd makes an entry with an attribute.
func odd(t *testing.T, upper, name, mark, value string) {
	t.Helper()
	text := "odd"
	if name == "meta" {
		text = ""
	}
	put(t, upper, map[string]string{name: text})
	if err := unix.Setxattr(filepath.Join(upper, name), prefix+mark, []byte(value), 0); err != nil {
		t.Skipf("this file system keeps no user attributes: %v", err)
	}
}

func TestChangesAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		lim  Limits
		want string
	}{
		"files":   {Limits{Files: 3}, "more than 3 files"},
		"bytes":   {Limits{Bytes: 10}, "more than 10 bytes"},
		"refused": {Limits{Refused: 2}, "more than 2 entries were rejected"},
		"time":    {Limits{Time: time.Nanosecond}, "longer than 1ns"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, base(t))
			id, upper := f.create(t)
			for i := range 5 {
				put(t, upper, map[string]string{fmt.Sprintf("f%d", i): "text"})
				must(t, unix.Mkfifo(fmt.Sprintf("%s/p%d", upper, i), 0o600))
			}
			c, err := f.Changes(t.Context(), id, test.lim)
			must(t, err)
			defer c.Close()
			_, refused := told(t, c)
			if c.Complete || !strings.Contains(refused, test.want) {
				t.Errorf("complete %t, refused %s; want %q", c.Complete, refused, test.want)
			}
		})
	}
	f := newFixture(t, base(t))
	id, _ := f.create(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Changes(ctx, id, Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	l.Release()
}

// TestChangesAreWhatWasLookedAt swaps a file after the look, which nobody can who
// has no lease; the content is refused all the same.
func TestChangesAreWhatWasLookedAt(t *testing.T) {
	for name, swap := range map[string]func(t *testing.T, p string){
		"link":   func(t *testing.T, p string) { must(t, os.Remove(p)); must(t, os.Symlink("/etc/passwd", p)) },
		"fifo":   func(t *testing.T, p string) { must(t, os.Remove(p)); must(t, unix.Mkfifo(p, 0o600)) },
		"longer": func(t *testing.T, p string) { must(t, os.WriteFile(p, []byte("longer text"), 0o600)) },
		"other": func(t *testing.T, p string) {
			must(t, os.WriteFile(p+"2", []byte("text"), 0o644))
			must(t, os.Rename(p+"2", p))
		},
		"through": func(t *testing.T, p string) {
			d := filepath.Dir(p)
			must(t, os.Rename(d, d+"2"))
			must(t, os.Symlink(d+"2", d))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, base(t))
			id, upper := f.create(t)
			put(t, upper, map[string]string{"n/f": "text"})
			c, err := f.Changes(t.Context(), id, Limits{})
			must(t, err)
			defer c.Close()
			swap(t, upper+"/n/f")
			if r, err := c.List[0].Open(); err == nil {
				b, _ := io.ReadAll(r)
				t.Errorf("it was read: %q", b)
			}
		})
	}
}

func TestDelta(t *testing.T) {
	f := newFixture(t, base(t))
	id, upper := f.create(t)
	put(t, upper, map[string]string{"a": "other", "new/f": "n", "d/e/z": "->../../a", "ln": "->/etc"})
	must(t, os.Chmod(upper+"/new/f", 0o755))
	whiteoutAt(t, upper+"/b")
	whiteoutAt(t, upper+"/d/x")
	c, err := f.Changes(t.Context(), id, Limits{})
	must(t, err)
	defer c.Close()
	stack := []layer.Digest{f.base}
	first, err := Delta(t.Context(), f.layers, stack, c.List)
	must(t, err)
	again, err := Delta(t.Context(), f.layers, stack, c.List)
	if err != nil || again != first {
		t.Errorf("%s and %s, %v", first, again, err)
	}
	// A second delta on the first, which brings back, deletes the rest of a
	// directory, and replaces things.
	of := func(p, s string) Change { return Change{Path: p, Mode: Regular, Size: int64(len(s)), Open: text(s)} }
	second, err := Delta(t.Context(), f.layers, append(stack, first), []Change{
		of("b", "back"), {Path: "d/y", Delete: true}, {Path: "d/e/z", Delete: true}, {Path: "new/f", Delete: true}, of("new", "a file now"), {Path: "never/was", Delete: true}, {Path: "ln/x", Delete: true},
	})
	must(t, err)
	view := func(digests ...layer.Digest) string {
		v, err := openView(f.layers, digests)
		must(t, err)
		defer v.close()
		var all []string
		must(t, files(t.Context(), v.roots, "", 100, func(p, _ string, _ found) error { all = append(all, p); return nil }))
		return strings.Join(sorted(all), " ")
	}
	if got, want := view(f.base, first), ".git/config a big d/e/z d/y l ln new/f"; got != want {
		t.Errorf("base and delta show %s; want %s", got, want)
	}
	if got, want := view(f.base, first, second), ".git/config a b big l ln new"; got != want {
		t.Errorf("both deltas show %s; want %s", got, want)
	}
	tree, err := f.layers.Resolve(second)
	must(t, err)
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(tree.Root, "d"), &st); err != nil || !isWhiteout(&st) || int(st.Uid) != UserID() {
		t.Errorf("an emptied directory: %+v, %v; want a whiteout", st, err)
	}
}

func TestDeltaRefuses(t *testing.T) {
	f := newFixture(t, base(t))
	of := func(p string) Change { return Change{Path: p, Mode: Regular, Size: 1, Open: text("x")} }
	link := func(p, to string) Change { return Change{Path: p, Mode: Symlink, Size: int64(len(to)), Open: text(to)} }
	for name, list := range map[string][]Change{
		"up":            {of("../x")},
		"absolute":      {of("/etc/x")},
		"not clean":     {of("a/../../x")},
		"empty":         {of("")},
		"the top":       {of(".")},
		"NUL":           {of("a\x00b")},
		"twice":         {of("x"), of("x")},
		"below a file":  {of("x"), of("x/y")},
		"below a link":  {link("x", "/etc"), of("x/y")},
		"git":           {of("s/.git/hooks/x")},
		"no mode":       {{Path: "x", Size: 1, Open: text("x")}},
		"no content":    {{Path: "x", Mode: Regular}},
		"shorter":       {{Path: "x", Mode: Regular, Size: 2, Open: text("x")}},
		"longer":        {{Path: "x", Mode: Regular, Size: 1, Open: text("xx")}},
		"a directory":   {{Path: "d", Delete: true}},
		"no target":     {link("x", "")},
		"a long target": {link("x", strings.Repeat("x", 5000))},
	} {
		_, err := Delta(t.Context(), f.layers, []layer.Digest{f.base}, list)
		if api.KindOf(err) != api.KindInvalid {
			t.Errorf("%s: %v; want kind invalid", name, err)
		}
	}
	if list, _ := f.layers.List(); len(list) != 1 {
		t.Errorf("left: %v", list)
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// FuzzChangePath: a path that is taken stays below the directory that it is for, and
// comes to none of git's own files.
func FuzzChangePath(f *testing.F) {
	for _, p := range []string{"a/b", "../x", ".git/config", "a/.GIT /x", "a/./b", "\xff", ".g\u200cit/hooks", "git~1/x", "a\x00b"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		list, err := checkChanges([]Change{{Path: p, Mode: Regular, Size: 1, Open: text("x")}})
		if err != nil {
			return
		}
		if len(list) != 1 || !filepath.IsLocal(p) || filepath.Clean(p) != p || !utf8.ValidString(p) || strings.ContainsRune(p, 0) {
			t.Errorf("accepted %q", p)
		}
		for name := range strings.SplitSeq(p, "/") {
			if strings.EqualFold(strings.TrimRight(name, " ."), ".git") {
				t.Errorf("accepted %q", p)
			}
		}
	})
}
