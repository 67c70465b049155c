// Command liar is a hostile guest for a sandbox with its own kernel.
package main

import (
	"os"

	"hortus.dev/test/attack/liar"
)

func main() { os.Exit(liar.Hostile()) }
