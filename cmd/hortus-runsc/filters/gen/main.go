package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"hortus.dev/cmd/hortus-runsc/filters"
	"hortus.dev/cmd/hortus-runsc/filters/precompile"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path != filters.Module {
			continue
		}
		if m.Replace != nil {
			return fmt.Errorf("%s is replaced: programs of a modified gVisor cannot be stored", m.Path)
		}
		t, err := precompile.Table(m.Version)
		if err != nil {
			return err
		}
		return os.WriteFile("compiled_"+runtime.GOARCH+".bin", t.Encode(), 0o644)
	}
	return fmt.Errorf("this binary does not contain its gVisor version")
}
