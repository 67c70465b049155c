// Package inside is the first process of a virtual machine of the microvm backend. It prepares what a sandbox needs on a
// kernel of its own, starts the guest, and connects the guest's socket with the machine's serial port.
//
//	if os.Args[0] == inside.Argv0 {
//		os.Exit(inside.Main())
//	}
//
// # What it does
//
// It loads the modules of the initial file system, opens the serial port, and waits for the host's first packet, a
// [Plan]. It mounts the layers, which are disks of the machine, below an overlay whose upper directory is on the disk for
// what is written; it sets up the loopback interface and the capture of outgoing connections; and it starts the guest in
// namespaces of its own, with the privileges that birth.ArgStdio lists. Then it only forwards: each stream as a socket to
// the guest, and packets in both directions, as [Message] towards the host. When the guest ends, it says how, and
// switches the machine off.
//
// # What it must not know
//
// What the packets after the first say, which are between the host and the guest. The package is part of the guest's
// executable and must stay small. All its input comes from the host, before any untrusted code runs.
package inside
