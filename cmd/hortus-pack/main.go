package main

import (
	"fmt"
	"os"

	"hortus.dev/internal/platform/embedded"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: hortus-pack FROM TO")
		os.Exit(2)
	}
	b, err := os.ReadFile(os.Args[1])
	if err == nil {
		b, err = embedded.Pack(b)
	}
	if err == nil {
		err = os.WriteFile(os.Args[2], b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hortus-pack:", err)
		os.Exit(1)
	}
}
