// Package microvm is the backend whose sandboxes are virtual machines: each has a kernel of its own, behind the
// processor's virtualization. It starts them with QEMU.
//
// # What runs
//
// A machine has the kernel that package kernel installed, an initial file system with the guest's executable, one virtual
// disk for each layer, read-only, a disk that it writes to, and a serial port; it has no network. Its first process
// (package inside) mounts the layers and starts the guest. Streams and orders
// cross the serial port (package serial). QEMU runs without privileges (package qemu).
//
// # KVM is proved
//
// That /dev/kvm can be opened proves nothing: on some hosts a machine then never runs. The probe boots one, and without
// an answer within a deadline there is no KVM. A configuration may allow QEMU's emulation instead, which is several times
// slower and for tests; package choice never takes it by itself.
//
// # Snapshots
//
// For Save the guest closes its streams and QEMU stops the processors. The state is the memory of the machine, its disk,
// and some kilobytes of devices. A restored machine maps the memory of the state privately, so that its start copies
// nothing, and waits, stopped, for its claim. A snapshot can be restored with the same kernel, guest, QEMU and
// accelerator only.
//
// # How it lives
//
// QEMU outlives this process. Its sockets are in the run directory of the sandbox, with a record of the process; the next
// daemon connects again. Each machine has two goroutines, which end with it or when it is left.
//
//	b, err := microvm.New(microvm.Config{Dir: dir, Layers: layers, Kernel: dir, Guest: path})
//	defer b.Close()
//
// # What it must not know
//
// Commands, files and terminals, which the guest serves; rows and deadlines, which the manager keeps.
package microvm
