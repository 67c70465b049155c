package repo

import (
	"context"
	"io"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
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
	// Secrets are what its sandboxes may use in addition to those of the task.
	Secrets []api.SecretGrant
	// Obeys are paths that a repository must not have: the agent would run what they name.
	Obeys []string
	// Work makes the agent of the task.
	Work func(Desk) Worker
}

// Desk is where an agent that is a program works.
type Desk struct {
	// Talk starts a program in the current sandbox.
	Talk func(ctx context.Context, req api.ExecRequest) (Conn, error)
	// Write writes a file in it.
	Write func(ctx context.Context, path string, content []byte) error
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

// Talk starts a program in the agent's current sandbox.
func (s *seat) Talk(ctx context.Context, req api.ExecRequest) (Conn, error) {
	box, err := s.at()
	if err != nil {
		return nil, err
	}
	return box.Talk(ctx, req)
}

// hired is a task as its agent sees it, which may be a program in the sandbox.
type hired struct{ *work }

// external reports whether it is.
func (w hired) external() bool { return w.job.Agent != "" }

// install installs the program.
func (w hired) install(ctx context.Context) error {
	if !w.external() || w.req.PrepareOnly {
		return nil
	}
	if w.cfg.Runtimes == nil {
		return api.Errorf(api.KindUnsupported, "no agents but Hortus's own can be used here")
	}
	q := SetupRequest{
		Task: w.job.Task.ID, Sandbox: w.sandbox(), NextLog: func() string { return w.logs.next(w.job.Dir) }, Step: w.step,
		Emit: func(ctx context.Context, e api.RepoStepEvent) { w.job.Emit.Emit(ctx, api.EventRepoStep, e) },
	}
	var err error
	if w.runtime, err = w.cfg.Runtimes.Prepare(ctx, w.job.Task, q); err != nil {
		return err
	}
	w.release = append(w.release, w.runtime.Release)
	return w.unbidden(ctx)
}

// unbidden refuses a repository that has what the agent would obey. Files that are off limits are not there.
func (w hired) unbidden(ctx context.Context) error {
	if len(w.runtime.Obeys) == 0 {
		return nil
	}
	for _, m := range w.members {
		files, _, err := visible(ctx, m.repo, m.base, m.files)
		if err != nil {
			return err
		}
		for _, f := range files {
			for _, path := range w.runtime.Obeys {
				if f.Path == path || strings.HasPrefix(f.Path, path+"/") {
					return api.Errorf(api.KindDenied, "the repository has %.200s, which the agent %s would follow, and run what it names", f.Path, w.runtime.Label).
						WithHint("use another agent, or hide it: --off-limits '%s/**'", path)
				}
			}
		}
	}
	return nil
}

// layers are those of the workspace, the lowest first.
func (w hired) layers() []Layer {
	layers := w.prepared.below(w.members.layers()...)
	if w.runtime.Layer != "" {
		layers = append([]Layer{w.runtime.Layer}, layers...)
	}
	return layers
}

// box is the sandbox of the agent: that of the task with what the program needs. A gate has neither.
func (w hired) box() api.CreateSandbox {
	box := w.prepared.into(w.sandbox())
	if len(w.runtime.Secrets) > 0 {
		box.Secrets = append(append([]api.SecretGrant(nil), box.Secrets...), w.runtime.Secrets...)
	}
	return box
}

// name names who works, for people.
func (w hired) name() string {
	if w.external() {
		return w.runtime.Label
	}
	return w.job.Model.Name()
}
