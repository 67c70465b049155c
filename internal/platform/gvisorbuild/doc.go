// Package gvisorbuild builds gVisor's executable, cmd/hortus-runsc, and the small guest that
// runs in its sandboxes, cmd/hortus-guest, from the source tree that the running program
// was compiled from.
//
// go run ./cmd/hortus compiles one module, without gVisor (docs/decisions/0033), so its
// sandboxes have the weaker isolation. This package makes up for it once: it runs the go
// command on the other module, and the next daemon of the data directory finds the result.
// The guest is built too because hortus itself, which serves as one otherwise, is linked
// dynamically where Go finds a C compiler, and nothing of the C library is in a new sandbox.
// The go command checks every module that it downloads against go.sum.
//
//	source, err := gvisorbuild.Source()
//	b := gvisorbuild.New(gvisorbuild.Config{Source: source, Dir: dataDir + "/bin"})
//	if b.State().Phase == gvisorbuild.Missing {
//		err = b.Build(ctx) // a minute or two
//	}
//
// A build holds a lock file, so two processes do not build at a time; the second one waits
// and finds the work done. Executables are renamed into place when they are complete. Beside
// them are a note (which source it is of), the go command's output, and why a build failed.
//
// The package knows nothing of sandboxes, daemons or the command line.
//
// # Reasons
//
// It builds and does not download a binary: the source tree, Go and go.sum are there. The
// command line builds, after the first verified task and only if go run made this program; a
// daemon of root has dropped capabilities that compilers may need.
package gvisorbuild
