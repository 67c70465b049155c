// Hortus-runsc is gVisor's runsc with what hortus needs of it and no more: the
// processes of a sandbox (boot, gofer, umount) and the commands that make, save,
// restore and end one, and exec, which `hortus bench` compares with. It takes runsc's
// flags. `make build` embeds it in hortus, which runs it from sealed memory; nobody else
// is meant to.
//
// It is a module of its own, because gVisor wants other versions of modules that
// hortus needs as well. Nothing of hortus may be imported here, and hortus imports
// nothing of this: they know each other by a command line.
//
// Four things differ from runsc as `go install` builds it.
//
//   - Commands that hortus never runs are left out, and with them more than half of
//     the binary.
//   - The seccomp filters of the sandbox's two processes are compiled ahead: see
//     package filters.
//   - The sentry gives back what its start left behind, and makes no table for tracers.
//   - It says which gVisor it is. A checkpoint bears that version, and only a
//     sandbox of the same version takes it back.
//
// gVisor is Copyright The gVisor Authors, under the Apache License 2.0. Archives of
// releases carry its license and those of the other modules that are linked.
package main
