package repo

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

// Setup installs what a commit needs, before anyone works on it.
type Setup interface {
	// Prepare returns the result of the setup of a commit, from an earlier task or made now. Its steps are events. For
	// the key that is known it returns the key alone.
	// An error says that the task cannot continue; a failure that it can continue with is an event.
	Prepare(ctx context.Context, q SetupRequest) (Prepared, error)
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
	// Files are those of the commit that are not off limits.
	Files []cache.Entry
	// Read returns at most max bytes of one; nil if it cannot be read.
	Read func(path string, max int64) []byte
	// Layer is the checkout, and Work what was changed in it, if that is set up: Files and Read are then of both. Its
	// result is found by this task alone, because installing runs code that nobody has reviewed.
	Layer Layer
	Work  Layer
	// Known is the key of a result that the caller has.
	Known string
	// Logs is how many steps of the task have an output in Dir.
	Logs int
	// Dir takes the output of each step, in files that SetupLog names.
	Dir string
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
type Prepared struct {
	// Key names what decides about the result: the same files of a commit give the same key. It is empty if there
	// is nothing to install.
	Key string
	// Logs is how many steps of the task have an output now.
	Logs int
	// Layers lie below the checkout, the lowest first.
	Layers []Layer
	// Env are variables of the agent and the gates.
	Env      map[string]string
	Services []Service
	// Release releases the layers. It is never nil.
	Release func()
}

// SetupLog is the name of the output of one step of a setup, counted from 1.
func SetupLog(n int) string {
	return "setup-" + string(rune('0'+n/10)) + string(rune('0'+n%10))
}

// setup prepares what the commit needs.
func (w *work) setup(ctx context.Context) error {
	w.prepared.Release = func() {}
	if w.cfg.Setup == nil || w.req.NoSetup {
		return nil
	}
	files, _, err := w.visible(ctx)
	if err != nil {
		return err
	}
	w.prepared, err = w.cfg.Setup.Prepare(ctx, setupRequest(ctx, w, files))
	if err != nil {
		return err
	}
	w.release = append(w.release, w.prepared.Release)
	return nil
}

// setupRequest asks for the setup of the base.
func setupRequest(ctx context.Context, w *work, files []cache.Entry) SetupRequest {
	return SetupRequest{
		Task: w.job.Task.ID, Sandbox: w.sandbox(), Egress: w.job.Task.Create.SetupEgress, Repository: git.DisplayAddress(w.req.URL), Branch: cmp.Or(w.base.Branch, w.base.Hash),
		Files: files, Layer: w.layer, Dir: w.job.Dir,
		Read: func(path string, max int64) []byte {
			b, err := w.repo.ReadFile(ctx, w.base.Hash, path, max)
			if err != nil {
				return nil
			}
			return b
		},
		Step: w.step,
		Emit: func(ctx context.Context, e api.RepoStepEvent) { w.job.Emit.Emit(ctx, api.EventRepoStep, e) },
	}
}

// into adds the variables of the setup to those of a sandbox, which come first.
func (p Prepared) into(box api.CreateSandbox) api.CreateSandbox {
	if len(p.Env) > 0 {
		env := maps.Clone(p.Env)
		maps.Copy(env, box.Env)
		box.Env = env
	}
	return box
}

// below returns the layers of a sandbox, the lowest first: what is installed, below the checkout. So a file of the
// repository is never hidden by one that was installed.
func (p Prepared) below(layers ...Layer) []Layer { return slices.Concat(p.Layers, layers) }

// Times of services.
const (
	serviceReady = time.Minute
	serviceRetry = 500 * time.Millisecond
)

// Serve starts services in a sandbox and waits until they are ready. They end with it.
func Serve(ctx context.Context, box Computer, services []Service) error {
	for _, s := range services {
		if _, err := box.Start(ctx, s.Exec); err != nil {
			return api.Errorf(api.KindOf(err), "start the service %s: %w", s.Name, err)
		}
	}
	for _, s := range services {
		if err := ready(ctx, box, s); err != nil {
			return err
		}
	}
	return nil
}

func ready(ctx context.Context, box Computer, s Service) error {
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

// setupOutput reports whether a name is the output of a step of the setup.
func setupOutput(dir, which string) bool {
	if len(which) != len("setup-00") || !strings.HasPrefix(which, "setup-") {
		return false
	}
	for n := 1; n < 100; n++ {
		if SetupLog(n) == which {
			_, err := os.Stat(filepath.Join(dir, which+".out"))
			return err == nil
		}
	}
	return false
}
