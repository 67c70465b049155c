// Package seccomp is the system call policy of sandboxes: an allow list that is compiled, once in a
// process, to a classic BPF program.
//
// The list is the default profile that Docker publishes, for a process without capabilities,
// without the calls in the table removals and with restricted arguments of some calls. Nothing
// outside Docker's profile can get into it.
//
// Calls that are not in the list fail: with EPERM if this package knows the call and refuses it,
// with ENOSYS if the call is newer than the package or if a C library then falls back to an older
// call. Foreign architectures and x32 calls are refused as a whole.
//
// Arguments are compared as the kernel reads them. Most of them are C ints, of which the kernel
// drops the upper half of the register, so that a filter that compares 64 bits could be bypassed
// with a high bit. [Policy] therefore compares 32 bits only.
//
// The package must not know sandboxes: it deals with numbers and arguments. It installs nothing,
// which the stage in initns does, and has no state.
//
//	policy, err := seccomp.Default(seccomp.Options{GuestUID: -1, GuestGID: -1})
//	program, err := policy.Compile()
//
// # Reasons
//
// Which calls stay is decided by what toolchains use: TestToolchainCalls in test/conformance
// traces real programs. An allowed call that none of them uses is removed (removals.go) or kept
// for a reason in kept_test.go. Calls that answer for another form of a used one are kept,
// because refusing them closes nothing.
package seccomp
