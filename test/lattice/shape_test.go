package lattice

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The maximum size of the parts, without tests and generated code.
const (
	// maxDistricts is the number of folders that a newcomer finds directly under internal/.
	maxDistricts    = 14
	maxPackageLines = 4000
	maxMethods      = 40
	// maxDaemonLines is for the package that only wires.
	maxDaemonLines = 1500
)

func TestDistricts(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join("..", "..", "internal"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > maxDistricts {
		t.Errorf("internal/ has %d folders, the maximum is %d: put a new package into its district (docs/architecture.md)", len(entries), maxDistricts)
	}
}

// TestSizes counts the lines of each package and the methods that each type declares.
func TestSizes(t *testing.T) {
	lines, methods := map[string]int{}, map[string]int{}
	for _, top := range []string{"api", "client", "cmd", "internal"} {
		root := filepath.Join("..", "..", top)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && d.Name() == "testdata" {
				if err == nil {
					err = fs.SkipDir
				}
				return err
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			return measure(path, lines, methods)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) < 100 || len(methods) < 500 {
		t.Fatalf("%d packages and %d types were found", len(lines), len(methods))
	}
	for dir, n := range lines {
		limit := maxPackageLines
		if dir == "internal/daemon" {
			limit = maxDaemonLines
		}
		if n > limit {
			t.Errorf("%s has %d lines, the maximum is %d: split it by its ideas", dir, n, limit)
		}
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, the maximum is %d: it is several types", name, n, maxMethods)
		}
	}
}

// measure adds the lines and the methods of a file, unless it is generated.
func measure(path string, lines, methods map[string]int) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	first, _ := bufio.NewReader(bytes.NewReader(src)).ReadString('\n')
	if strings.Contains(first, "DO NOT EDIT") {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir, err := filepath.Rel(filepath.Join("..", ".."), filepath.Dir(path))
	if err != nil {
		return err
	}
	lines[dir] += bytes.Count(src, []byte("\n"))
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || len(f.Recv.List) == 0 {
			continue
		}
		recv := f.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		switch x := recv.(type) {
		case *ast.IndexExpr:
			recv = x.X
		case *ast.IndexListExpr:
			recv = x.X
		}
		if id, ok := recv.(*ast.Ident); ok {
			methods[dir+"."+id.Name]++
		}
	}
	return nil
}
