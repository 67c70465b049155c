// Package sudo is the program of that name in a sandbox, and what it says to the guest.
//
// In a sandbox no program gains privileges by being executed, so the usual sudo cannot
// work. This one asks the guest to start the command as another user of the sandbox, and
// hands over its own standard input, output and error. The guest gives nobody more than a
// client of the sandbox's API gets who asks for that user: see [Socket].
//
//	sudo apt-get install --help          # as root
//	sudo -u user -E NAME=value make      # as user, with this environment
//
// The command lives as long as the program that asked for it: signals to the program go to
// the command, and when the program is killed, so is the command. Where standard input and
// output are a terminal, the command gets a terminal of its own, and what is typed and
// printed is copied, so that shells have job control.
//
// In a sandbox without a root of its own (docs/security.md), sudo says so and runs the
// command as the user who asked: that user owns all that there is to own.
//
// The package knows nothing of the guest but the socket's protocol.
package sudo
