package repo

import (
	"context"
	"path/filepath"
	"sync/atomic"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

// SetupLog is the name of the output of one step of a setup, counted from 1.
func SetupLog(n int) string {
	return "setup-" + string(rune('0'+n/10)) + string(rune('0'+n%10))
}

// setup prepares what the commit needs.
func (m *repository) setup(ctx context.Context) error {
	m.prepared.Release = func() {}
	if m.cfg.Setup == nil || m.req.NoSetup {
		return nil
	}
	files, _, err := m.visible(ctx)
	if err != nil {
		return err
	}
	m.prepared, err = m.cfg.Setup.Prepare(ctx, m.setupRequest(ctx, files, m.steps))
	if err != nil {
		return err
	}
	m.release = append(m.release, m.prepared.Release)
	return nil
}

// setupRequest asks for the setup of the base, whose steps go to a ledger.
func (m *repository) setupRequest(ctx context.Context, files []cache.Entry, l *steps) SetupRequest {
	return SetupRequest{
		Task: m.task.ID, Sandbox: m.sandbox(), Egress: m.task.Create.SetupEgress, Secrets: m.task.Create.SetupSecrets, Repository: git.DisplayAddress(m.URL), Branch: m.branch(), Dir: m.Name,
		Files: files, Layer: m.layer, Required: m.req.PrepareOnly, NextLog: func() string { return m.logs.next(m.dir) },
		Read: func(path string, max int64) []byte {
			b, err := m.repo.ReadFile(ctx, m.base.Hash, path, max)
			if err != nil {
				return nil
			}
			return b
		},
		Step: func(ctx context.Context, e api.RepoStepEvent, do func() (string, error)) error {
			e.Repository = m.Name
			return l.do(ctx, e, do)
		},
		Emit: func(ctx context.Context, e api.RepoStepEvent) {
			e.Repository = m.Name
			l.tell(ctx, api.EventRepoStep, e)
		},
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
func (r repositories) together(others map[*repository]SetupResult) SetupResult {
	var all SetupResult
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
