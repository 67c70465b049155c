// Package sudo is the program sudo of a sandbox, and its protocol with the guest.
//
//	sudo apt-get install --help          # as root
//	sudo -u user -E NAME=value make      # as user, with this environment
//
// In a sandbox no program gains privileges when it is executed, so the usual sudo cannot
// work. This one requests that the guest start the command as another user of the sandbox,
// and passes its standard input, output and error. The guest grants no more rights than a
// client of the sandbox's API gets if it requests that user: see [Socket].
//
// The command lives as long as the program: signals are forwarded, and if the program is
// killed, so is the command. If standard input and output are a terminal, the command gets a
// terminal of its own, and input and output are copied, so that shells have job control.
//
// In a sandbox without a root of its own (docs/security.md), sudo prints a note and runs the
// command as the current user, who owns all files there.
//
// The package must not depend on the guest, except for the protocol of the socket.
//
// # Reasons
//
// It cannot be switched off: root inside is as hostile as user to everything outside, and a
// boundary between the two is not promised. The socket is abstract, so that no file must be
// protected or left over in a snapshot.
package sudo
