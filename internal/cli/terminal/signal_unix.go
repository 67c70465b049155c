//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"
)

// Passed are the signals that go to the command.
var Passed = [...]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE}

// notifySize reports changes of the terminal's size.
func notifySize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }
