// Typecheck checks the types of packages and of their tests for the architecture that GOARCH names, as the compiler
// would, and compiles nothing: all packages that they import, and the standard library, would have to be compiled for
// it too.
//
//	GOARCH=arm64 typecheck ./internal/guest/...
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	// The files without cgo are plain Go, and cgo is off for another architecture.
	found, err := packages.Load(&packages.Config{
		Mode:  packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedModule,
		Tests: true, Env: append(os.Environ(), "CGO_ENABLED=0"),
	}, os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if packages.PrintErrors(found) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%d packages and tests for %s\n", len(found), os.Getenv("GOARCH"))
}
