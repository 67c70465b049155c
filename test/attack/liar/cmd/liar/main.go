package main

import (
	"os"

	"hortus.dev/test/attack/liar"
)

func main() { os.Exit(liar.Hostile()) }
