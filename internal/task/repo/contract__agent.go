package repo

import (
	"context"
	"io"
	"net"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
)

// Worker is the agent of a task. Its calls come one after the other.
type Worker interface {
	// Run says message to the agent and returns when it stops. A later call continues the same conversation, also in
	// another sandbox over the same workspace. Ending its turn is no success: the gate decides.
	Run(ctx context.Context, message string) loop.Report
}

// Runtimes are the agents that are programs in the sandbox.
type Runtimes interface {
	// Prepare installs the agent that a task names, or finds it from an earlier task.
	Prepare(ctx context.Context, task api.Task, q SetupRequest) (Runtime, error)
}

// Runtime is an agent that is installed.
type Runtime struct {
	// Label names it with its version.
	Label string
	// Layer has its files. It stays until Release is called.
	Layer   Layer
	Release func()
	// Root is the directory of its files, relative to the workspace. Nothing changes it in the agent's sandbox.
	Root string
	// Secrets are what its sandboxes may use in addition to those of the task.
	Secrets []api.SecretGrant
	// Obeys are paths that a repository must not have: the agent would run what they name.
	Obeys []string
	// Work makes the agent of the task.
	New func(WorkerConfig) Worker
}

// Place is where programs run.
type AgentSandbox interface {
	tool.Sandbox
	// Talk starts a program that the host talks to.
	Talk(ctx context.Context, req api.ExecRequest) (Conn, error)
	// Dial connects with a port of the loopback interface. The error has [envd.ErrPortClosed] in its chain if no program
	// listens there.
	Dial(ctx context.Context, port int) (net.Conn, error)
}

// Desk is where an agent that is a program works.
type WorkerConfig struct {
	// Box is the current sandbox.
	Sandbox AgentSandbox
	// Write writes a file of the agent's configuration, whatever the file policy says.
	Write func(ctx context.Context, path string, content []byte) error
	// Replace replaces the sandbox, which was lost, by another one over the same workspace. n counts the calls of all
	// turns, from 1. Nil if there is no other.
	Replace func(ctx context.Context, n int, lost error) error
	// Session is what the agent called the conversation in an earlier turn, and Past that conversation as text, if it
	// cannot be continued.
	Session, Past string
	Budget        api.Budget
	Emit          Emitter
	Transcript    io.Writer
}

// Conn is a program in a sandbox that the host talks to.
type Conn interface {
	io.ReadWriteCloser
	// Said is the end of what it wrote to its standard error.
	Said() string
	Exec() api.Exec
}
