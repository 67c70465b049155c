// Package main runs tests in a virtual machine under QEMU's software emulation: a
// stock Debian kernel and stock Debian programs, with control groups version 2
// only. `make test-vm` runs it.
//
// The program has two roles. On the host it downloads Debian's packages, compiles
// the tests, makes two disk images and an initial RAM disk that contains this
// program, starts QEMU, and reads the machine's messages, line by line, from a
// virtio port. As process 1 of the machine it mounts the file systems of a Linux
// system, makes the control groups in systemd's layout, runs the steps of the plan
// in order, each as the user and in the group that it names, reports the result of
// each, and switches the machine off.
//
// It succeeds only if every step ran to its end, every test passed or was skipped
// with a reason, and every test that a step requires passed.
//
// The package must not depend on what the tests test. It installs nothing on the
// host: packages are unpacked below the cache directory, and the images can be
// made again. The host needs only QEMU.
//
// # Reasons
//
// The machines that test Hortus have control groups of version 1, and version 2 differs where
// it matters: delegation, processes in inner groups, systemd. Emulation needs no KVM and no
// rights. A step names tests that must pass, so that a limit that is missing fails and is not
// skipped.
package main
