package language_test

import (
	"path"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/platform/language"
)

// Each entry is complete, and no two share a name or a file.
func TestTable(t *testing.T) {
	names, mains := map[string]string{}, map[string]string{}
	for _, l := range language.All() {
		if l.Title == "" || l.Run == "" || len(l.Needs) == 0 || l.Package == "" || l.Comment == "" || path.Ext(l.Main) == "" {
			t.Errorf("%s is not complete: %+v", l.Name, l)
		}
		for _, name := range append([]string{string(l.Name)}, l.Others...) {
			if names[name] != "" || name != strings.ToLower(name) {
				t.Errorf("%q of %s is taken by %s, or has capitals", name, l.Title, names[name])
			}
			names[name] = l.Title
			if got, ok := language.Named(strings.ToUpper(name)); !ok || got.Name != l.Name {
				t.Errorf("%q names %q", name, got.Name)
			}
		}
		if mains[l.Main] != "" {
			t.Errorf("%s has the file of %s", l.Title, mains[l.Main])
		}
		mains[l.Main] = l.Title
		if got, ok := language.OfFile("a/b" + path.Ext(l.Main)); !ok || got.Name != l.Name {
			t.Errorf("%s is a file of %q", l.Main, got.Name)
		}
		if got, ok := language.Of(l.Name); !ok || got.Title != l.Title {
			t.Errorf("Of(%q) is %+v", l.Name, got)
		}
	}
	for _, name := range []string{"", "cobol", "c#", ".py"} {
		if l, ok := language.Named(name); ok {
			t.Errorf("%q names %s", name, l.Title)
		}
	}
}

func TestLacks(t *testing.T) {
	tool := func(name string) api.Tool { return api.Tool{Name: name, Present: true} }
	rust, _ := language.Of(api.Rust)
	for _, c := range []struct {
		tools []api.Tool
		want  string
	}{
		{nil, "rustc"},
		{[]api.Tool{{Name: "rustc"}, tool("gcc")}, "rustc"},
		{[]api.Tool{tool("rustc")}, "gcc or cc"},
		{[]api.Tool{tool("rustc"), tool("cc")}, ""},
		{[]api.Tool{tool("gcc"), tool("rustc")}, ""},
	} {
		if got := rust.Lacks(c.tools); got != c.want {
			t.Errorf("%+v lacks %q, want %q", c.tools, got, c.want)
		}
	}
}
