// Hortus-runsc is a reduced version of gVisor's runsc. It has only what hortus needs: the
// processes of a sandbox (boot, gofer, umount), the commands that create, save, restore
// and end a sandbox, and exec, which `hortus-bench` compares with. It takes runsc's
// flags. `make build` embeds it in hortus, which runs it from sealed memory. It is not
// meant to be run by users.
//
// It is a separate module, because gVisor needs other versions of modules that hortus
// needs too. It must not import packages of hortus outside this module, and hortus must
// not import it: hortus uses it by its command line only.
//
// It differs from runsc as built by `go install` in five ways.
//
//   - Restored kernels share the memory of what they were restored from: see package
//     patch, with whose changes it is built.
//   - Commands that hortus never runs are left out, which more than halves the binary.
//   - The seccomp filters of the sandbox's two processes are compiled in advance: see
//     package filters.
//   - The sentry releases the memory that its start used, and creates no table for
//     tracers.
//   - It reports gVisor's version. A checkpoint contains that version, and only a
//     sandbox of the same version can restore it.
//
// gVisor is Copyright The gVisor Authors, under the Apache License 2.0. Archives of
// releases carry its license and those of the other modules that are linked.
package main
