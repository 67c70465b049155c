// Typecheck checks the types of packages and of their tests for the architecture that GOARCH
// names, as the compiler would, and compiles nothing: all packages that they import, and the
// standard library, would have to be compiled for it too.
//
//	GOARCH=arm64 typecheck ./internal/guest/...
//
// Of packages that are only imported, it checks the declarations.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// listed is what go list says of a package. A package that is compiled for a test has an
// ImportPath such as "p [p.test]".
type listed struct {
	ImportPath, Dir, ForTest string
	GoFiles                  []string
	ImportMap                map[string]string
	DepOnly                  bool
	Module                   *struct{ GoVersion string }
}

// checker has the packages that it checked, by ImportPath.
type checker struct {
	files   *token.FileSet
	checked map[string]*types.Package
	whole   int
}

func main() {
	c := checker{files: token.NewFileSet(), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
	if err := c.run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d packages and tests for %s, and the declarations of %d others\n", c.whole, build.Default.GOARCH, len(c.checked)-c.whole)
}

// run checks what go list lists: each package after those that it imports.
func (c *checker) run(patterns []string) error {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-test", "-json=ImportPath,Dir,ForTest,GoFiles,ImportMap,DepOnly,Module", "--"}, patterns...)...)
	// The files without cgo are plain Go, and cgo is off for another architecture.
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	var errs []error
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		// The main package of a test is generated.
		if p.ImportPath != "unsafe" && !strings.HasSuffix(p.ImportPath, ".test") {
			errs = append(errs, c.check(p)...)
		}
	}
	if c.whole == 0 {
		errs = append(errs, errors.New("no packages"))
	}
	return errors.Join(errs...)
}

func (c *checker) check(p listed) (errs []error) {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return []error{err}
		}
		files = append(files, f)
	}
	imports := importer(func(path string) (*types.Package, error) {
		if as := p.ImportMap[path]; as != "" {
			path = as
		}
		if dep := c.checked[path]; dep != nil {
			return dep, nil
		}
		return nil, fmt.Errorf("%s is not checked", path)
	})
	conf := types.Config{
		Importer:         imports,
		Sizes:            types.SizesFor("gc", build.Default.GOARCH),
		IgnoreFuncBodies: p.DepOnly,
		Error:            func(err error) { errs = append(errs, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	if !p.DepOnly {
		c.whole++
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.checked[p.ImportPath], _ = conf.Check(path, c.files, files, nil) // its errors are in errs
	return errs
}

// importer finds the package that an import of a file means.
type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
