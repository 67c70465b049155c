//go:build !unix

package terminal

import (
	"os"
	"syscall"
)

// Passed are the signals that go to the command; this system has no others.
var Passed = [...]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// notifySize does nothing: this system has no signal for it, and the command
// keeps the size that the terminal had when it began.
func notifySize(chan<- os.Signal) {}
