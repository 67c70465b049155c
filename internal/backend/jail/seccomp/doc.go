// Package seccomp is the system call policy of the container backend: an allow
// list, compiled once in a process to a classic BPF program.
//
// The list is the default profile that Docker publishes, for a process without
// capabilities, less the calls in the table removals, and with the arguments of
// some calls narrowed. Nothing outside Docker's profile can come into it.
//
// Whatever the list does not name fails: with EPERM where the call is known to
// this package and refused, with ENOSYS where it is newer than the package or
// where a C library falls back to an older call on that answer. Foreign
// architectures and the x32 numbers are refused as a whole.
//
// Arguments are compared as the kernel reads them. Most interesting arguments
// are C ints, of which the kernel drops the upper half of the register, so a
// filter that compares 64 bits could be passed by setting a high bit. [Policy]
// compares 32 bits and has nothing else.
//
// The package knows numbers and arguments, nothing of sandboxes, and installs
// nothing: the stage in initns does.
package seccomp
