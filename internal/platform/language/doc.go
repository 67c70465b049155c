// Package language is the table of the languages that programs are written in: what each
// is called, which file its program begins in, and which commands compile and run it in a
// sandbox without a network.
//
//	l, ok := language.Named("golang") // Go
//	l.Main                            // main.go
//	l.Compile, l.Run                  // go build -o program *.go, ./program
//	l.Lacks(tools)                    // "go", where the sandbox has none
//
// A new language is one entry. Everything here is constant. The package must not know
// models, sandboxes or which programs a host has.
package language
