// Package filters provides gVisor with precompiled seccomp programs.
//
// The sentry and the gofer each install a filter when they start. gVisor's own build
// compiles the filters in advance. A build of its Go module cannot: it compiles them at
// each start and restore of a sandbox, which takes about 15 ms. This package holds the
// programs for the options with which hortus starts sandboxes (compiled_GOARCH.bin, a few
// kilobytes), and adds them to gVisor's tables. With other options gVisor finds none and
// compiles them itself.
//
// A filter is a security boundary of the sandbox, so an outdated one must never be used.
// The file contains the version of gVisor whose rules it was compiled from; a binary with
// another version ignores it. The tests compare the version of every file with go.mod,
// and every instruction with what gVisor compiles itself.
//
// After an upgrade of gVisor, or when the options change (package precompile), run
//
//	go generate ./filters
//
// which compiles for the other architecture with qemu-user.
//
// The package must not depend on sandboxes. Its programs are registered once, when the
// process starts, and live as long as the process.
package filters

//go:generate sh generate.sh
