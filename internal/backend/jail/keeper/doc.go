// Package keeper is the first process of a sandbox whose guest has its own kernel. It is the
// init of the pid namespace in which that kernel runs as an ordinary, unprivileged program:
// when the keeper ends, the host's kernel ends every other process in it.
//
// # What it does
//
// It starts the programs of the other kernel ([Plan]), holds the host's end of the guest's
// only socket, and forwards: the packets between daemon and guest during a start, and the
// streams that the daemon opens, each as the accepted socket itself, so that no byte of a
// stream passes through the keeper. It carries out saves: the guest closes its streams, the
// kernel writes itself into the files that the daemon opened, and the guest resumes, either
// at once or, if the daemon asks for that, when the daemon's connection ends.
//
// # How it lives and dies
//
// It follows the stage of package initns in the same process, which must stay small:
// therefore the package imports only the standard library and x/sys. Until the daemon has
// said "go" the keeper ends with its control socket. After that it lives as long as the
// guest's kernel, without the daemon. Once the kernel runs, the keeper has no capabilities
// and the system call filter of a guest.
//
//	code := keeper.Run(keeper.Config{Plan: plan, FD: fd, Control: control, Listen: listen, Requests: requests, Confine: confine})
//
// # What it must not know
//
// Which kernel it is: calls and files come from the daemon unchanged. It does not read a
// guest's packets, except the report that a save waits for. What a hostile kernel or guest
// sends is bounded and forwarded as bytes.
//
// # Reasons
//
// A pause to disk holds the machine until the snapshot has its name, because a daemon that died
// between save and record lost the sandbox: of 20 kills within 200 ms of a pause 10 did. The
// hold ends with the daemon's connection, so that its death needs nobody who notices it.
package keeper
