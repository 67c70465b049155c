package image

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestReadLayers: what says on which layers an image is names no other file, and each layer once.
func TestReadLayers(t *testing.T) {
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"name":"%016x","bytes":1,"files":2}`, i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	for text, ok := range map[string]bool{
		many(0):                          true,
		many(MaxLayers):                  true,
		many(MaxLayers + 1):              false,
		`[{"name":"../../../../etc/x"}]`: false,
		`[{"name":""}]`:                  false,
		`[{"name":"0000000000000001"},{"name":"0000000000000001"}]`:   false,
		`[{"name":"0000000000000001","bytes":-1}]`:                    false,
		`[{"name":"0000000000000001","files":-1}]`:                    false,
		`{"name":"0000000000000001"}`:                                 false,
		`[{"name":"0000000000000001"}`:                                false,
		``:                                                            false,
		`[{"name":"0000000000000001"},{"name":"000000000000000/"}]`:   false,
		`[{"name":"0000000000000001"},{"name":"0000000000000002\n"}]`: false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, layersName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLayers(dir); (err == nil) != ok || err != nil && api.KindOf(err) != api.KindConflict {
			t.Errorf("%.80s: %v", text, err)
		}
	}
	if l, err := ReadLayers(t.TempDir()); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
}

// TestLinkLayers: a layer is one file with several names, no link leads elsewhere, and what is not needed any more goes.
func TestLinkLayers(t *testing.T) {
	from, into := t.TempDir(), filepath.Join(t.TempDir(), "new")
	l := Layers{{Name: NewBase(), Bytes: 5, Files: 1}, {Name: NewBase(), Bytes: 6, Files: 2}}
	for _, x := range l {
		if err := os.WriteFile(filepath.Join(from, LayerFile(x.Name)), []byte(x.Name), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := KeepLayers(from, into, l); err != nil {
		t.Fatal(err)
	}
	got, err := ReadLayers(into)
	if bytes, files := got.Size(); err != nil || bytes != 11 || files != 3 {
		t.Errorf("%v, %v", got, err)
	}
	for _, x := range l {
		a, err1 := os.Stat(filepath.Join(from, LayerFile(x.Name)))
		b, err2 := os.Stat(filepath.Join(into, LayerFile(x.Name)))
		if err1 != nil || err2 != nil || !os.SameFile(a, b) {
			t.Errorf("%s is not one file: %v, %v", x.Name, err1, err2)
		}
	}
	if err := RemoveLayers(into, l[1:]); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(into, "layer-*")); err != nil || len(left) != 1 || filepath.Base(left[0]) != LayerFile(l[1].Name) {
		t.Errorf("%v, %v", left, err)
	}
	name := NewBase()
	if err := os.Symlink("/etc/passwd", filepath.Join(from, LayerFile(name))); err != nil {
		t.Fatal(err)
	}
	if err := LinkLayers(from, into, Layers{{Name: name}}); err == nil {
		t.Error("a symbolic link was linked")
	}
}
