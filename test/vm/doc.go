// Package main boots a machine of its own under QEMU's software emulation and
// runs tests there: a stock Debian kernel and stock Debian programs, with control
// groups version 2 and nothing else. `make test-vm` runs it.
//
// It is one program with two lives. On the host it fetches Debian's packages,
// compiles the tests, makes two disk images and an initial RAM disk that holds
// this very program, starts QEMU, and reads what the machine says, line by line,
// from a virtio port. As process 1 of that machine it mounts what a system
// mounts, makes the control groups as systemd lays them out, runs the steps of
// the plan one after the other, each as the user and in the group that it names,
// says how each ended, and switches the machine off.
//
// It ends with success only if every step ran to its end, every test of it
// passed or was skipped with a reason, and every test that the step must pass was
// passed and not skipped.
//
// The package must not know what the tests test. Nothing is installed on the
// host: packages are unpacked below the cache directory, and the images are
// thrown away or made again. The host's QEMU is the one thing that has to be
// there.
package main
