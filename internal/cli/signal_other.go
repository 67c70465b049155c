//go:build !unix

package cli

import (
	"os"
	"syscall"
)

// passed are the signals that go to the command; this system has no others.
var passed = [...]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// notifySize does nothing: this system has no signal for it, and the command
// keeps the size that the terminal had when it began.
func notifySize(chan<- os.Signal) {}
