// Package keeper is the first process of a sandbox whose guest has a kernel of its
// own. It is the init of the pid namespace in which that kernel runs as an ordinary,
// unprivileged program: when the keeper ends, the host's kernel ends everything else
// in it.
//
// # What it does
//
// It has the programs of the other kernel started ([Plan]), holds the host's end of
// the guest's one socket, and passes things on: the packets of a birth between
// daemon and guest, and the streams that the daemon opens, each as the accepted
// socket itself, so that no byte of a stream goes through it. It carries out saves:
// the guest lets go of its streams, the kernel is asked to write itself into the
// files that the daemon opened, the guest goes on: at once, or, where the daemon asks
// for that, when the daemon's connection ends.
//
// # Life
//
// It follows the stage of package initns in the same process, which is small for
// that reason: the package imports the standard library and x/sys only. Until the
// daemon has said "go" the end of the control socket ends it. Afterwards it lives
// for as long as the guest's kernel does, without the daemon. Once the kernel runs
// it holds no capability and has the system call filter of a guest.
//
// # What it must not know
//
// Which kernel it is: calls and files come from the daemon as they are. It does not
// read a guest's packets beyond the one question whether a save may go on; what a
// hostile kernel or guest sends is bounded and passed on as bytes.
package keeper
