// Package initns is the stage between the clone of a sandbox's first process and its guest. It
// runs inside the new namespaces, builds what the sandbox sees, drops the privileges that the
// sandbox must not have, and becomes the guest by execveat.
//
// It is started by executing the guest's binary with [Argv0] as argv[0], so it must stay
// small: it imports only the standard library and x/sys, and must not know the guest, the
// backend or the compiler of seccomp programs.
//
// The host sends one [Spec] packet with the descriptors that it names. The stage answers with
// [Built] and a descriptor of the sandbox's disk, or with a birth.Report that names the step
// that failed. It exits when the control socket is closed. All its input comes from the host,
// before any untrusted code has run.
//
//	if os.Args[0] == initns.Argv0 {
//		os.Exit(initns.Main())
//	}
//
// # Reasons
//
// Where the sandbox has a range of ids and the binary has no cgo, the stage becomes the guest
// without a second execve, which would start the Go runtime twice (2.5 of 8.7 ms). It then
// drops ids, capabilities and descriptors on every thread. test/conformance checks the state
// from outside, with cgo and without.
package initns
