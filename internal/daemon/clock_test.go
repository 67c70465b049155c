package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ownClock are the parts that have the clock of this machine, and why: no other node compares their times with its own.
var ownClock = map[string]string{
	"artefact.Config":    "how long an object is without a name is measured in this process",
	"delivery.Config":    "tokens of forges end by the clock of the forge",
	"external.Config":    "it measures durations",
	"oci.Config":         "its records are files, which are compared with other files",
	"register.Config":    "it measures how long the lease of another host does not change",
	"setup.Config":       "it measures durations",
	"upkeep.Config":      "it is that of files; RowsNow is the clock of the database",
	"space.LedgerConfig": "it measures durations",
	"certificate.Config": "certificates of others are valid by the clock of this machine",
	"quota.RatesConfig":  "rates are measured in this process",
}

// TestPartsHaveTheClockOfTheDatabase: each part with a field Now gets it, so that nodes whose clocks differ agree on all times that they store.
func TestPartsHaveTheClockOfTheDatabase(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	clocks := map[string]map[string]bool{} // of a package, the structs with a field Now
	seen := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		imports := map[string]string{}
		for _, i := range f.Imports {
			p := strings.Trim(i.Path.Value, `"`)
			local := path.Base(p)
			if i.Name != nil {
				local = i.Name.Name
			}
			imports[local] = p
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			sel, ok := lit.Type.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg := sel.X.(*ast.Ident).Name
			dir, own := strings.CutPrefix(imports[pkg], "hortus.dev/internal/")
			if !own {
				return true
			}
			if clocks[dir] == nil {
				clocks[dir] = withClock(t, filepath.Join("..", dir))
			}
			what := pkg + "." + sel.Sel.Name
			sets := slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
				kv, ok := e.(*ast.KeyValueExpr)
				return ok && kv.Key.(*ast.Ident).Name == "Now"
			})
			if !clocks[dir][sel.Sel.Name] {
				return true
			}
			seen[what] = true
			if _, may := ownClock[what]; !sets && !may || sets && may {
				t.Errorf("%s: %s has the clock of the database: %v; ownClock lists it: %v", name, what, sets, may)
			}
			return true
		})
	}
	if len(seen) < 20 {
		t.Errorf("found only %v", seen)
	}
	for what := range ownClock {
		if !seen[what] {
			t.Errorf("ownClock lists %s, which is not there", what)
		}
	}
}

// withClock returns the structs of a package with a field Now.
func withClock(t *testing.T, dir string) map[string]bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, id := range field.Names {
						out[spec.Name.Name] = out[spec.Name.Name] || id.Name == "Now"
					}
				}
			}
			return true
		})
	}
	return out
}
