package repo

import (
	"context"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/gate"
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
	// GoTests are the runs of go test that the gate makes, see gate.GoTests.
	GoTests []string
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
	// Commit is what Files are of, without the work.
	Commit string
	// Fresh is true if nothing that was installed earlier may be used.
	Fresh bool
	// Again is true if a setup that failed a short time ago is tried again.
	Again bool
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

// SetupResult is the result of a setup.
type SetupResult struct {
	// Key names what decides about the result: the same files of a commit give the same key. It is empty if there
	// is nothing to install.
	Key string
	// Layers lie below the checkout, the lowest first.
	Layers []Layer
	// Env are variables of the agent and the gates.
	Env      map[string]string
	Services []Service
	// NotInstalled is what the setup left out, or could not install.
	NotInstalled []api.NotInstalled
	// Release releases the layers. It is never nil.
	Release func()
}

// Into adds the variables of the setup to those of a sandbox, which come first.
func (p SetupResult) Into(sandbox api.CreateSandbox) api.CreateSandbox {
	if len(p.Env) > 0 {
		env := maps.Clone(p.Env)
		maps.Copy(env, sandbox.Env)
		sandbox.Env = env
	}
	return sandbox
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
func Serve(ctx context.Context, sandbox Sandbox, services []Service) error {
	if _, run := sandbox.(ServiceSandbox); run {
		return nil
	}
	for _, s := range services {
		if _, err := sandbox.Start(ctx, s.Exec); err != nil {
			return api.Errorf(api.KindOf(err), "start the service %s: %w", s.Name, err)
		}
	}
	return Ready(ctx, sandbox, services)
}

func awaitReady(ctx context.Context, sandbox Sandbox, s Service) error {
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
		ex, err := sandbox.Run(context.WithoutCancel(ctx), s.Ready, func(string, []byte) error { return nil })
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

// SetupLog is the name of the output of one step of a setup, counted from 1.
func SetupLog(n int) string {
	return "setup-" + string(rune('0'+n/10)) + string(rune('0'+n%10))
}

// setup prepares what the commit needs.
func (m *repository) setup(ctx context.Context) error {
	m.prepared.Release = func() {}
	if m.project.cfg.Setup == nil || m.project.req.NoSetup {
		return nil
	}
	files, _, err := m.visible(ctx)
	if err != nil {
		return err
	}
	m.prepared, err = m.project.cfg.Setup.Prepare(ctx, m.setupRequest(ctx, files, m.project.steps))
	if err != nil {
		return err
	}
	m.release = append(m.release, m.prepared.Release)
	return nil
}

// findGoTests finds what the tests of the base compile, for all setups of the task: one of changes must have the key of the base's
// unless they change what is installed.
func (m *repository) findGoTests(ctx context.Context) error {
	files, _, err := m.visible(ctx)
	if err != nil || !slices.ContainsFunc(files, func(f cache.Entry) bool { return path.Base(f.Path) == "go.mod" }) {
		return err
	}
	tree, command := m.tree(ctx, files), m.project.req.Verify
	if command == "" {
		c, err := gate.Detect(tree)
		if err != nil {
			return nil // which is said where the gate is found
		}
		command = c.Text
	}
	m.goTests = gate.GoTests(tree, command)
	return nil
}

// setupRequest asks for the setup of the base, whose steps go to steps.
func (m *repository) setupRequest(ctx context.Context, files []cache.Entry, l *steps) SetupRequest {
	return SetupRequest{
		Task: m.project.task.ID, Sandbox: m.project.sandbox(), Egress: m.project.task.Create.SetupEgress, Secrets: m.project.task.Create.SetupSecrets, Repository: git.DisplayAddress(m.URL), Branch: m.branch(), Dir: m.Name,
		Files: files, GoTests: m.goTests, Layer: m.layer, Required: m.project.req.PrepareOnly, Commit: m.base.Hash, Fresh: m.project.req.Fresh && m.project.req.PrepareOnly, Again: m.project.req.Fresh || len(m.project.earlier) > 0, NextLog: func() string { return m.project.logs.next(m.project.dir) },
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
		all.NotInstalled = append(all.NotInstalled, p.NotInstalled...)
		for name, value := range p.Env {
			// The variables that are lists: where the packages and the programs of each are.
			if have := all.Env[name]; (name == "PYTHONPATH" || name == "PATH") && have != "" && have != value {
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

// dependencies returns what a gate has below a tree of changes: the setups of the bases, or that of the changed tree of a
// repository whose changes decide what is installed. The caller releases it.
func (j *gates) dependencies(ctx context.Context, changes []cache.Change, top Layer) (SetupResult, error) {
	others := map[*repository]SetupResult{}
	for _, m := range j.attempt.project.members {
		part := m.part(changes)
		if len(part) == 0 {
			continue
		}
		p, err := m.dependencies(ctx, part, top, j.attempt.steps)
		if err != nil {
			j.attempt.project.members.together(others).Release()
			return j.attempt.project.members.together(nil), err
		}
		others[m] = p
	}
	return j.attempt.project.members.together(others), nil
}

func (m *repository) dependencies(ctx context.Context, changes []cache.Change, top Layer, l *steps) (SetupResult, error) {
	same := m.prepared
	same.Release = func() {}
	if m.project.cfg.Setup == nil || m.project.req.NoSetup {
		return same, nil
	}
	files, _, err := m.visible(ctx)
	if err != nil {
		return same, err
	}
	q := m.setupRequest(ctx, changedFiles(files, changes), l)
	q.Work, q.Known = top, m.prepared.Key
	base := q.Read
	q.Read = func(path string, max int64) []byte {
		for _, c := range changes {
			if c.Path == path {
				return content(c, max)
			}
		}
		return base(path, max)
	}
	p, err := m.project.cfg.Setup.Prepare(ctx, q)
	if err != nil {
		return same, err
	}
	if p.Key == same.Key {
		p.Release()
		return same, nil
	}
	return p, nil
}

// changedFiles returns the files of a commit after changes, sorted by path.
func changedFiles(files []cache.Entry, changes []cache.Change) []cache.Entry {
	changed := make(map[string]bool, len(changes))
	for _, c := range changes {
		changed[c.Path] = true
	}
	out := slices.DeleteFunc(slices.Clone(files), func(f cache.Entry) bool { return changed[f.Path] })
	for _, c := range changes {
		if !c.Delete {
			out = append(out, cache.Entry{Path: c.Path, Mode: c.Mode, Size: c.Size})
		}
	}
	slices.SortFunc(out, func(a, b cache.Entry) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// content returns at most max bytes of a changed file; nil if it cannot be read.
func content(c cache.Change, max int64) []byte {
	if c.Delete || c.Open == nil || c.Mode == cache.Symlink {
		return nil
	}
	r, err := c.Open()
	if err != nil {
		return nil
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, max))
	if err != nil {
		return nil
	}
	return b
}
