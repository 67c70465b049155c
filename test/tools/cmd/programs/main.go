package main

import (
	"fmt"
	"os"
	"path/filepath"

	"hortus.dev/test/tools"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: programs DIR")
		os.Exit(2)
	}
	if err := copyTo(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

func copyTo(dir string) error {
	gvisor, err := tools.Hortus(filepath.Join(dir, "hortus"))
	if err == nil {
		err = gvisor
	}
	if err != nil {
		return err
	}
	built, err := tools.Built()
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, "tools"), os.DirFS(built))
}
