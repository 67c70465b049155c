// Package qemu starts virtual machines with QEMU and controls them over QMP, QEMU's protocol.
//
//	p, err := qemu.Start(ctx, qemu.Machine{Accelerator: qemu.KVM, ...})
//	q, err := qemu.Connect(ctx, conn)
//	err = q.Stop(ctx)
//	err = q.Save(ctx, file)
//
// A machine has no devices but a serial port, a source of random numbers and disks, and no network. QEMU gets everything
// as open files: it needs no name of a file system, and its process has a user of its own, empty network and process
// namespaces, no privileges, and QEMU's own system call filter.
//
// # Memory
//
// The memory of a machine is a file. A machine that was started writes to the file, so that saving it copies the file and
// writes some kilobytes of devices. A restored machine maps the file of the saved one privately: nothing is copied until
// it is written.
//
// # What it does not trust
//
// QEMU, once a machine runs, which an attacker in the machine may have taken over: replies have a maximum size, and
// commands a time.
//
// A process outlives this one; [Process.Wait] is for the one that started it. A [Client] has a goroutine until Close. The
// package must not know sandboxes.
package qemu
