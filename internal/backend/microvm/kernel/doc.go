// Package kernel installs the kernel of virtual machines: that of a distribution, with the modules that a sandbox needs
// in an initial file system.
//
//	k, err := kernel.Install(ctx, dir, "linux-image-6.1.0-56-cloud-amd64.deb", digest)
//	k, err := kernel.Open(dir)
//	err = kernel.WriteProgram(w, guest)  // the other part of the initial file system
//
// The kernel of a distribution has its drivers as modules, so that one kernel fits all machines. The initial file system
// has those in [Modules] with what they depend on, in the order in which they can be loaded.
//
// What is installed is trusted by its digest. It is parsed, not run, on the host: an installed kernel runs in virtual
// machines only. The package must not know machines or sandboxes.
package kernel
