package manager

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox/command"
)

// commands is what a manager does with commands.
type commands struct{ *core }

// Execs lists the commands of a sandbox, the newest first.
func (m commands) Execs(ctx context.Context, id api.SandboxID) ([]api.Exec, error) {
	if _, ok := m.lookup(id); !ok {
		if _, err := m.cfg.Rows.Sandbox(ctx, id); err != nil {
			return nil, err
		}
	}
	rows, err := m.cfg.Rows.ListExecs(ctx, id)
	if err == nil {
		m.RefreshExecs(id, rows)
	}
	return rows, err
}

// Exec returns one command of a sandbox; KindNotFound for one of another.
func (m commands) Exec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error) {
	row, err := m.cfg.Rows.Exec(ctx, exec)
	if api.KindOf(err) == api.KindNotFound || err == nil && row.Sandbox != id {
		return api.Exec{}, api.Errorf(api.KindNotFound, "unknown command %.64q in sandbox %s", exec, id)
	}
	if err != nil {
		return api.Exec{}, err
	}
	rows := []api.Exec{row}
	m.RefreshExecs(id, rows)
	return rows[0], nil
}

// RefreshExecs sets in rows of a sandbox's commands what is newer than what was stored:
// commands that run have written more.
func (m commands) RefreshExecs(id api.SandboxID, rows []api.Exec) {
	if l, ok := m.lookup(id); ok {
		l.commands.Refresh(rows)
	}
}

// ExecOf returns the command that runs in a sandbox as a process: the newest one if a pid was
// reused. It returns false if this manager runs none.
func (m commands) ExecOf(id api.SandboxID, pid int) (api.ExecID, bool) {
	l, ok := m.lookup(id)
	if !ok {
		return "", false
	}
	return l.commands.Process(pid)
}

// Streams returns the number of streams of commands with an active reader.
func (m commands) Streams() int { return m.run.Streams() }

// StartExec runs a command and gives its stream. The record is stored before the command
// starts and its end is stored whether or not anybody reads on: a stream that is closed
// early leaves the command running. Errors are those of [command.Commands.Start].
func (m commands) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (*command.Stream, error) {
	return m.core.startExec(ctx, id, req)
}

func (c *core) startExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (*command.Stream, error) {
	if err := command.Check(req); err != nil {
		return nil, err
	}
	l, err := c.running(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.run.Start(ctx, l.commands, req, l.first())
}

// AttachExec streams the output of a command from a byte offset on. See
// [command.Commands.Attach]; [Manager.Exec] has the exit of a command that ended.
func (m commands) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (*command.Stream, error) {
	row, err := m.cfg.Rows.Exec(ctx, exec)
	if err != nil {
		return nil, err
	}
	if row.Sandbox != id {
		return nil, api.Errorf(api.KindNotFound, "sandbox %s has no command %s", id, exec)
	}
	l, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	return m.run.Attach(ctx, l.commands, row, offset)
}

// Client returns the client of a sandbox's guest. It is shared: do not close it.
func (m commands) Client(ctx context.Context, id api.SandboxID) (*envd.Client, error) {
	l, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	return l.commands.Guest(), nil
}
