//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// passed are the signals that go to the command.
var passed = [...]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE}

// notifySize tells of changes of the terminal's size.
func notifySize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }
