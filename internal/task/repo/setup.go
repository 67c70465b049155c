package repo

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/repo/service"
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
	// Known is the key of a result that the caller has.
	Known string
	// NextLog returns the file for the output of the next step; empty if no more outputs are kept.
	NextLog func() string
	// Step runs one step, whose begin and end are events.
	Step func(ctx context.Context, e api.RepoStepEvent, do func() (detail string, err error)) error
	// Emit emits an event of a step that runs.
	Emit func(ctx context.Context, e api.RepoStepEvent)
}

// Prepared is the result of a setup.
type Prepared struct {
	// Key names what decides about the result: the same files of a commit give the same key. It is empty if there
	// is nothing to install.
	Key string
	// Layers lie below the checkout, the lowest first.
	Layers []Layer
	// Env are variables of the agent and the gates.
	Env      map[string]string
	Services []service.Service
	// Release releases the layers. It is never nil.
	Release func()
}

// SetupLog is the name of the output of one step of a setup, counted from 1.
func SetupLog(n int) string {
	return "setup-" + string(rune('0'+n/10)) + string(rune('0'+n%10))
}

// setup prepares what the commit needs.
func (m *member) setup(ctx context.Context) error {
	m.prepared.Release = func() {}
	if m.cfg.Setup == nil || m.req.NoSetup {
		return nil
	}
	files, _, err := m.visible(ctx)
	if err != nil {
		return err
	}
	m.prepared, err = m.cfg.Setup.Prepare(ctx, m.setupRequest(ctx, files))
	if err != nil {
		return err
	}
	m.release = append(m.release, m.prepared.Release)
	return nil
}

// setupRequest asks for the setup of the base.
func (m *member) setupRequest(ctx context.Context, files []cache.Entry) SetupRequest {
	return SetupRequest{
		Task: m.job.Task.ID, Sandbox: m.sandbox(), Egress: m.job.Task.Create.SetupEgress, Secrets: m.job.Task.Create.SetupSecrets, Repository: git.DisplayAddress(m.URL), Branch: m.branch(), Dir: m.Name,
		Files: files, Layer: m.layer, Required: m.req.PrepareOnly, NextLog: func() string { return m.logs.next(m.job.Dir) },
		Read: func(path string, max int64) []byte {
			b, err := m.repo.ReadFile(ctx, m.base.Hash, path, max)
			if err != nil {
				return nil
			}
			return b
		},
		Step: m.step, Emit: m.emit,
	}
}

// maxLogs is how many steps of setups have a file with their output.
const maxLogs = 99

// logs counts the outputs of the steps of setups.
type logs struct{ n atomic.Int64 }

// next names the file for the output of the next step, below a task's folder.
func (l *logs) next(dir string) string {
	n := l.n.Add(1)
	if n > maxLogs {
		return ""
	}
	return filepath.Join(dir, SetupLog(int(n))+".out")
}

// together returns the setups of all members, but those of another kind that others has.
func (r roster) together(others map[*member]Prepared) Prepared {
	var all Prepared
	all.Env = map[string]string{}
	for _, m := range r {
		p, other := others[m]
		if !other {
			p = m.prepared
		}
		all.Layers = append(all.Layers, p.Layers...)
		all.Services = append(all.Services, p.Services...)
		for name, value := range p.Env {
			// The only variable that is a list: where the packages of each are.
			if have := all.Env[name]; name == "PYTHONPATH" && have != "" && have != value {
				value = have + ":" + value
			}
			all.Env[name] = value
		}
	}
	all.Release = func() {
		for _, p := range others {
			p.Release()
		}
	}
	return all
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

// setupOutput reports whether a name is the output of a step of the setup.
func setupOutput(dir, which string) bool {
	if !api.IsSetupOutput(which) {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, which+".out"))
	return err == nil
}
