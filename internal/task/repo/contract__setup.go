package repo

import (
	"context"
	"maps"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git/cache"
)

// Setup installs what a commit needs, before anyone works on it.
type Setup interface {
	// Prepare returns the result of the setup of a commit, from an earlier task or made now. Its steps are events. For
	// the key that is known it returns the key alone.
	// An error says that the task cannot continue; a failure that it can continue with is an event.
	Prepare(ctx context.Context, q SetupRequest) (SetupResult, error)
}

// SetupRequest is a commit that is about to be worked on.
type SetupRequest struct {
	Task api.TaskID
	// Sandbox is what the agent and the gates run in; its account is the trust zone.
	Sandbox api.CreateSandbox
	// Egress is what the steps may connect to; nil for the registries of the repository's package managers.
	Egress *api.EgressPolicy
	// Repository is its address, without credentials, and Branch the branch of the commit, or the commit if nobody
	// named one. Installing runs code of the repository, so what one branch installed is not used by another.
	Repository, Branch string
	// Dir is the directory of the workspace that has the repository, one of several; empty if it is the workspace.
	Dir string
	// Secrets are what the steps may use, instead of those of Sandbox.
	Secrets []api.SecretGrant
	// Files are those of the commit that are not off limits. Their paths, and those of Read, are relative to the repository.
	Files []cache.Entry
	// Read returns at most max bytes of one; nil if it cannot be read.
	Read func(path string, max int64) []byte
	// Layer is the checkout, and Work what was changed in it, if that is set up: Files and Read are then of both. Its
	// result is found by this task alone, because installing runs code that nobody has reviewed.
	Layer Layer
	Work  Layer
	// Required is true if the setup is all that the task is for: each failed step is an error then.
	Required bool
	// Agent is true for the installation of an agent: the result may lie below Agents.
	Agent bool
	// Known is the key of a result that the caller has.
	Known string
	// NextLog returns the file for the output of the next step; empty if no more outputs are kept.
	NextLog func() string
	// Step runs one step, whose begin and end are events.
	Step func(ctx context.Context, e api.RepoStepEvent, do func() (detail string, err error)) error
	// Emit emits an event of a step that runs.
	Emit func(ctx context.Context, e api.RepoStepEvent)
}

// Service is a program that runs beside the agent and beside a gate.
type Service struct {
	Name string
	Exec api.ExecRequest
	// Ready is a command that succeeds when the service can be used; empty args for none. It is tried until its
	// timeout.
	Ready api.ExecRequest
}

// Prepared is the result of a setup.
type SetupResult struct {
	// Key names what decides about the result: the same files of a commit give the same key. It is empty if there
	// is nothing to install.
	Key string
	// Layers lie below the checkout, the lowest first.
	Layers []Layer
	// Env are variables of the agent and the gates.
	Env      map[string]string
	Services []Service
	// Release releases the layers. It is never nil.
	Release func()
}

// Into adds the variables of the setup to those of a sandbox, which come first.
func (p SetupResult) Into(box api.CreateSandbox) api.CreateSandbox {
	if len(p.Env) > 0 {
		env := maps.Clone(p.Env)
		maps.Copy(env, box.Env)
		box.Env = env
	}
	return box
}

// Below returns the layers of a sandbox, the lowest first: what is installed, below the checkout. So a file of the
// repository is never hidden by one that was installed.
func (p SetupResult) Below(layers ...Layer) []Layer { return slices.Concat(p.Layers, layers) }

// Times of services.
const (
	serviceReady = time.Minute
	serviceRetry = 500 * time.Millisecond
)

// Serve starts services in a sandbox and waits until they are ready, unless they run in it. They end with it.
func Serve(ctx context.Context, box Sandbox, services []Service) error {
	if _, run := box.(ServiceSandbox); run {
		return nil
	}
	for _, s := range services {
		if _, err := box.Start(ctx, s.Exec); err != nil {
			return api.Errorf(api.KindOf(err), "start the service %s: %w", s.Name, err)
		}
	}
	return Ready(ctx, box, services)
}

func awaitReady(ctx context.Context, box Sandbox, s Service) error {
	if len(s.Ready.Args) == 0 {
		return nil
	}
	within := serviceReady
	if s.Ready.TimeoutMS > 0 {
		within = time.Duration(s.Ready.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, errNotReady)
	defer cancel()
	for {
		ex, err := box.Run(context.WithoutCancel(ctx), s.Ready, func(string, []byte) error { return nil })
		if err != nil {
			return api.Errorf(api.KindOf(err), "the service %s: %w", s.Name, err)
		}
		if ex.Exit.Code == 0 && ex.Exit.Cause == "" {
			return nil
		}
		select {
		case <-time.After(serviceRetry):
		case <-ctx.Done():
			if context.Cause(ctx) == errNotReady {
				return api.Errorf(api.KindTimeout, "the service %s was not ready within %s", s.Name, within)
			}
			return ctx.Err()
		}
	}
}

var errNotReady = api.Errorf(api.KindTimeout, "the service is not ready")
