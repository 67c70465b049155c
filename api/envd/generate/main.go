package main

import (
	"fmt"
	"os"
)

const output = "proto_gen.go"

func main() {
	text, err := generate("process.go", "filesystem.go")
	if err == nil {
		err = os.WriteFile(output, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
