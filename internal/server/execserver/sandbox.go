package execserver

import (
	"context"
	"io"

	"hortus.dev/api/envd"
)

// Sandbox is where commands run and files are. Its errors are api.Errors; KindNotFound is
// that of a file that does not exist. Paths are absolute.
type Sandbox interface {
	// Start starts a command. When ctx ends before the command does, it is killed.
	Start(ctx context.Context, c Command) (Process, error)
	// ReadFile opens a file.
	ReadFile(ctx context.Context, path string) (io.ReadCloser, error)
	// WriteFile replaces a file. Directories that are missing are made.
	WriteFile(ctx context.Context, path string, r io.Reader) error
	// Stat describes a file. A symbolic link has the type of what it leads to, and a target.
	Stat(ctx context.Context, path string) (*envd.EntryInfo, error)
	// List lists a directory.
	List(ctx context.Context, path string) ([]*envd.EntryInfo, error)
	// MakeDir makes a directory and those above it; one that exists is no error.
	MakeDir(ctx context.Context, path string) error
	// Remove removes a file or a whole directory.
	Remove(ctx context.Context, path string) error
}

// Command is what a process runs.
type Command struct {
	Args []string
	Dir  string
	// Env is added to the sandbox's environment.
	Env map[string]string
	// Terminal gives it a terminal, whose output is all in Stdout.
	Terminal bool
	// Input says that Write will be used.
	Input bool
	// Stdout and Stderr take the output while Wait runs, in its goroutine.
	Stdout, Stderr io.Writer
}

// Process is a command that was started.
type Process interface {
	// Write gives it input, and returns when it was taken or the process has ended.
	Write(p []byte) (int, error)
	// Signal sends a signal to its process group.
	Signal(ctx context.Context, signal int) error
	// Wait returns its exit code when it has ended and its output was written. It must be
	// called once, and returns at the end of the sandbox at the latest. An error says that the
	// end of the process was not seen.
	Wait() (code int, err error)
}
