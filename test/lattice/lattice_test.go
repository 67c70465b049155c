package lattice

import (
	_ "embed"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed rules.txt
var rulesText string

const module = "hortus.dev/"

type rules struct {
	allow   map[string][]string // package -> what it may import
	modules map[string]string   // "@name" -> module path
}

func parseRules(t *testing.T, text string) rules {
	t.Helper()
	r := rules{map[string][]string{}, map[string]string{}}
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if strings.HasPrefix(line, "@") {
			f := strings.Fields(line)
			if len(f) != 2 {
				t.Fatalf("rules.txt:%d: want a name and a module", n+1)
			}
			r.modules[f[0]] = f[1]
			continue
		}
		pkg, imports, ok := strings.Cut(line, "<")
		if !ok {
			t.Fatalf("rules.txt:%d: no <", n+1)
		}
		pkg = strings.TrimSpace(pkg)
		if _, twice := r.allow[pkg]; twice {
			t.Fatalf("rules.txt:%d: %s stands twice", n+1, pkg)
		}
		r.allow[pkg] = strings.Fields(imports)
	}
	return r
}

// allowed reports whether pkg may import imp.
func (r rules) allowed(pkg, imp string) bool {
	own, isOwn := strings.CutPrefix(imp, module)
	if !isOwn && !strings.Contains(strings.Split(imp, "/")[0], ".") {
		return true // the standard library
	}
	all := false
	for _, a := range r.allow[pkg] {
		switch {
		case a == "*":
			all = true
		case strings.HasPrefix(a, "!"):
			if isOwn && (own == a[1:] || strings.HasPrefix(own, a[1:]+"/")) {
				return false
			}
		case strings.HasPrefix(a, "@"):
			if m := r.modules[a]; m != "" && (imp == m || strings.HasPrefix(imp, m+"/")) {
				return true
			}
		case isOwn && own == a:
			return true
		}
	}
	return all
}

// packages maps every package of the module to its imports.
func packages(t *testing.T, root string) map[string][]string {
	t.Helper()
	pkgs := map[string][]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != root && (strings.HasPrefix(n, ".") || n == "testdata" || n == "node_modules") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); p != root && err == nil {
				return filepath.SkipDir // a module of its own, such as an example's repository
			}
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil || !strings.HasSuffix(p, ".go") {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		if strings.HasSuffix(p, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if _, ok := pkgs[pkg]; !ok {
			pkgs[pkg] = []string{}
		}
		for _, i := range f.Imports {
			imp, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(pkgs[pkg], imp) {
				pkgs[pkg] = append(pkgs[pkg], imp)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

func TestImports(t *testing.T) {
	r := parseRules(t, rulesText)
	pkgs := packages(t, "../..")
	if len(pkgs) < 5 {
		t.Fatalf("only %d packages were found", len(pkgs))
	}
	for pkg, imports := range pkgs {
		if _, ok := r.allow[pkg]; !ok {
			t.Errorf("%s has no line in rules.txt: say there what it may import", pkg)
			continue
		}
		for _, imp := range imports {
			if !r.allowed(pkg, imp) {
				t.Errorf("%s imports %s, against rules.txt", pkg, imp)
			}
		}
	}
	for pkg, allow := range r.allow {
		if _, ok := pkgs[pkg]; !ok {
			t.Errorf("rules.txt speaks of %s, which is no package", pkg)
		}
		for _, a := range allow {
			if strings.HasPrefix(a, "@") && r.modules[a] == "" {
				t.Errorf("rules.txt: %s may import %s, which is no module of the list", pkg, a)
			}
		}
	}
}

// TestRulesCanFail shows that the check sees what it is there for.
func TestRulesCanFail(t *testing.T) {
	r := parseRules(t, "a < b @m\nb <\nc < * !a\n@m example.org/m\n")
	for _, c := range []struct {
		pkg, imp string
		want     bool
	}{
		{"a", "hortus.dev/b", true}, {"b", "hortus.dev/a", false}, {"a", "hortus.dev/c", false},
		{"a", "example.org/m/sub", true}, {"a", "example.org/mm", false}, {"b", "example.org/m", false},
		{"b", "net/http", true}, {"c", "hortus.dev/b", true}, {"c", "hortus.dev/a", false},
	} {
		if got := r.allowed(c.pkg, c.imp); got != c.want {
			t.Errorf("%s imports %s: allowed %v, want %v", c.pkg, c.imp, got, c.want)
		}
	}
}

// TestEveryPackageIsDescribed wants a doc.go that says what a package is.
func TestEveryPackageIsDescribed(t *testing.T) {
	for pkg := range packages(t, "../..") {
		if strings.HasPrefix(pkg, "cmd/") {
			continue
		}
		b, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(pkg), "doc.go"))
		if err != nil {
			t.Errorf("%s: %v", pkg, err)
		} else if !strings.HasPrefix(string(b), "// Package ") {
			t.Errorf("%s/doc.go does not begin with the package's description", pkg)
		}
	}
}
