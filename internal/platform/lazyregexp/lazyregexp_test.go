package lazyregexp_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/internal/platform/lazyregexp"
)

func TestIsCompiledAtItsFirstUse(t *testing.T) {
	r := lazyregexp.New("(") // no panic yet
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression matched something")
		}
	}()
	r.MatchString("x")
}

// TestEveryExpressionCompiles does for all texts in this module what the first use of
// each would do too late.
func TestEveryExpressionCompiles(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || filepath.Base(filepath.Dir(path)) == "lazyregexp" {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isNew(call.Fun) {
				return true
			}
			seen++
			if text, ok := constant(call.Args[0]); ok {
				if _, err := regexp.Compile(text); err != nil {
					t.Errorf("%s: %v", files.Position(call.Pos()), err)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("%d expressions were found: the test does not see them", seen)
	}
}

func isNew(f ast.Expr) bool {
	s, ok := f.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "New" {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "lazyregexp"
}

// constant returns a text that is made of literals alone.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		left, ok := constant(e.X)
		right, ok2 := constant(e.Y)
		return left + right, ok && ok2 && e.Op == token.ADD
	}
	return "", false
}
