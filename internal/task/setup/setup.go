package setup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/dependency"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/repo"
)

// step is the name of the events.
const step = "setup"

// File is a file that the steps wrote.
type File struct {
	Path string // relative to the workspace
	// Delete is true if a file of the checkout is gone.
	Delete, Link, Executable bool
	Size                     int64
	ModTime                  time.Time
	// Open gives the content, of a link its target.
	Open func() (io.ReadCloser, error)
}

// Result is what a setup left in its workspace.
type Result struct {
	Files []File // sorted by path
	// Refused are entries that are no files, or out of bounds.
	Refused []api.RefusedChange
	// Close releases the workspace. Contents cannot be read after it.
	Close func()
}

// Sandboxes makes the sandboxes of setups, and keeps their files.
type Sandboxes interface {
	// Find returns the tree of that key; KindNotFound if there is none.
	Find(ctx context.Context, key string) (repo.Layer, func(), error)
	// Layer returns the tree of that key, which build writes below dir if it is not there.
	Layer(ctx context.Context, key string, build func(ctx context.Context, dir string) error) (repo.Layer, func(), error)
	// Verified waits until the content of a layer was compared with what was stored. KindNotFound if it is not that.
	Verified(ctx context.Context, l repo.Layer) error
	// ReadLayer returns a file of a layer, which has at most max bytes; KindNotFound if there is none.
	ReadLayer(ctx context.Context, l repo.Layer, path string, max int64) ([]byte, error)
	// Workspace makes durable files above layers, the lowest first.
	Workspace(ctx context.Context, task api.TaskID, layers ...repo.Layer) (api.WorkspaceID, error)
	// Open starts a sandbox over a workspace.
	Open(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID, access []filerule.Access) (repo.Sandbox, error)
	// Written reads what was written in a workspace, while no sandbox has it. KindExhausted if it is too much.
	Written(ctx context.Context, id api.WorkspaceID) (Result, error)
	// Discard removes a workspace.
	Discard(ctx context.Context, id api.WorkspaceID) error
	// Disk returns the directory whose disk has the files of workspaces.
	Disk() string
}

// Config is what a Preparer is made of. All fields but Now and Logger must be set.
type Config struct {
	Sandboxes Sandboxes
	// Toolchain names the programs of a request's sandbox with their versions.
	Toolchain func(ctx context.Context, req api.CreateSandbox) (string, error)
	Now       func() time.Time // nil is the clock
	Logger    *slog.Logger
}

// Preparer prepares repositories. It may be used from several goroutines.
type Preparer struct {
	cfg Config

	ctx    context.Context // of what works in the background
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	flights map[string]*flight
	failed  map[string]failed
}

var _ repo.Setup = (*Preparer)(nil)

// New makes a Preparer.
func New(cfg Config) *Preparer {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p := &Preparer{cfg: cfg, flights: map[string]*flight{}, failed: map[string]failed{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close ends the removal of workspaces. The next daemon continues it. No call of Prepare may run.
func (p *Preparer) Close() {
	p.cancel()
	p.work.Wait()
}

// discard removes a workspace, which takes its time if it is large. Only a task that is canceled does not wait for it: a
// daemon that stops before the end of the removal leaves it to the start of the next one.
func (p *Preparer) discard(task context.Context, ws api.WorkspaceID) {
	done := make(chan struct{})
	p.work.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(p.ctx, discardTimeout)
		defer cancel()
		if err := p.cfg.Sandboxes.Discard(ctx, ws); err != nil && p.ctx.Err() == nil {
			p.cfg.Logger.Error("cannot remove the workspace of a setup", "workspace", ws, "err", err)
		}
	})
	select {
	case <-done:
	case <-task.Done():
	}
}

// failure is a step that failed.
type failure struct {
	err  error
	step string
	// language is that of what the step installs, if it is known.
	language api.Language
	// output is the file with its output in the folder of the task that ran it; empty if it has none.
	output string
	task   api.TaskID
}

func (f *failure) Error() string {
	if f.step == "" {
		return f.err.Error()
	}
	return "step " + f.step + ": " + f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// hint says what to do about a failed step, and where the rest of its output is.
func (f *failure) hint(what string) string {
	if f.output == "" {
		return what
	}
	return fmt.Sprintf("%s To see its whole output: hortus task logs %s --gate %s.", what, f.task, strings.TrimSuffix(f.output, ".out"))
}

// Prepare implements repo.Setup. If the repository describes its setup itself, a step that fails is an error. If it was
// detected, the task continues without its result, unless the setup is all that it is for.
func (p *Preparer) Prepare(ctx context.Context, q repo.SetupRequest) (repo.SetupResult, error) {
	none := repo.SetupResult{Release: func() {}}
	plan, err := dependency.Of(tree(q))
	if err != nil {
		note(ctx, q, q.Dir, err)
		return none, err
	}
	if q.Dir != "" {
		plan = plan.In(q.Dir)
	}
	toolchain := ""
	if len(plan.Steps) > 0 {
		if toolchain, err = p.cfg.Toolchain(ctx, q.Sandbox); err != nil {
			return none, err
		}
	}
	if !plan.Empty() {
		none.Key = plan.Key(q.Sandbox.Account, q.Repository, q.Branch, toolchain)
	}
	if q.Work != "" {
		// What the agent changed is not installed again at each gate, only what is installed otherwise.
		if dependency.SameInputs(none.Key, q.Known) {
			none.Key = q.Known
			return none, nil
		}
		note(ctx, q, "the work changed what is installed", nil)
	}
	for _, text := range plan.Notes {
		note(ctx, q, text, nil)
		none.NotInstalled = append(none.NotInstalled, api.NotInstalled{Why: text})
	}
	for _, text := range plan.Warnings {
		note(ctx, q, text, nil)
	}
	none.Env = env(plan.Sources(), q)
	if plan.Empty() {
		return none, nil
	}
	out := none
	out.Env, out.Services = env(plan.Env, q), services(plan)
	if len(plan.Steps) == 0 {
		return out, nil
	}
	if len(plan.Code) > 0 {
		note(ctx, q, "the result is of this commit only, because the setup may run its code: "+strings.Join(plan.Code, ", "), nil)
	}
	j := &job{Preparer: p, q: q, plan: plan, env: out.Env, key: none.Key, made: record{Commit: q.Commit}}
	if q.Work != "" {
		j.key += " of " + string(q.Task)
	}
	l, release, err := p.orFailed(ctx, j)
	none.NotInstalled = append(none.NotInstalled, j.made.NotInstalled...)
	var failed *failure
	switch {
	case errors.As(err, &failed) && !plan.Recipe && !q.Required && ctx.Err() == nil:
		lack, without := api.NotInstalled{Language: failed.language, Why: failed.Error()}, "the task continues without installed dependencies"
		if dirs := none.Env["PYTHONPATH"]; dirs != "" && failed.language == api.Python {
			lack.Instead = "PYTHONPATH=" + strings.ReplaceAll(dirs, dependency.Workspace+"/", "")
			without += ", and with " + lack.Instead
		}
		note(ctx, q, without, nil)
		none.NotInstalled = append(none.NotInstalled, lack)
		return none, nil
	case errors.As(err, &failed) && !plan.Recipe:
		return none, api.Errorf(api.KindOf(failed.err), "the setup that was found failed: %w", failed).
			WithHint("%s", failed.hint("Repair what it installs, or describe the setup in "+path.Join(q.Dir, dependency.RecipePath)+"."))
	case errors.As(err, &failed):
		return none, api.Errorf(api.KindOf(failed.err), "%w (%s)", failed, path.Join(q.Dir, dependency.RecipePath)).
			WithHint("%s", failed.hint("Repair the setup, or leave it out with --no-setup."))
	case err != nil:
		return none, err
	case l == "":
		none.Services = out.Services
		return none, nil
	}
	if _, ok := q.Sandbox.Env["PATH"]; !ok && len(plan.Path) > 0 && j.made.Path != "" {
		out.Env["PATH"] = strings.Join(plan.Path, ":") + ":" + j.made.Path
	}
	out.Layers, out.Release, out.NotInstalled = []repo.Layer{l}, release, none.NotInstalled
	return out, nil
}

// note is an event that something was found or decided.
func note(ctx context.Context, q repo.SetupRequest, text string, err error) {
	e := api.RepoStepEvent{Step: step, Detail: text, Done: true}
	if err != nil {
		e.Error = err.Error()
	}
	q.Emit(ctx, e)
}

// tree is a commit for package dependency. Links are no files of it.
func tree(q repo.SetupRequest) dependency.Tree {
	t := dependency.Tree{GoTests: q.GoTests, Read: func(p string) []byte { return q.Read(p, dependency.MaxFile) }}
	for _, f := range q.Files {
		if f.Mode == cache.Regular || f.Mode == cache.Executable {
			t.Paths = append(t.Paths, f.Path)
		}
	}
	slices.Sort(t.Paths)
	sum := sha256.New()
	for _, f := range slices.SortedFunc(slices.Values(q.Files), func(a, b cache.Entry) int { return strings.Compare(a.Path, b.Path) }) {
		hash := f.Hash
		if hash == "" { // of the work
			content := sha256.Sum256(q.Read(f.Path, dependency.MaxFile))
			hash = hex.EncodeToString(content[:])
		}
		fmt.Fprintf(sum, "%v %s %q\n", f.Mode, hash, f.Path)
	}
	t.Digest = hex.EncodeToString(sum.Sum(nil))
	return t
}

// env returns variables of a plan, but those that the task has.
func env(all map[string]string, q repo.SetupRequest) map[string]string {
	out := maps.Clone(all)
	for name := range q.Sandbox.Env {
		delete(out, name)
	}
	return out
}

// services are those of a plan as commands.
func services(plan dependency.Plan) (out []repo.Service) {
	for _, s := range plan.Services {
		one := repo.Service{Name: s.Name, Exec: api.ExecRequest{Args: []string{"sh", "-c", s.Run}, Dir: within(s.Dir)}}
		if s.Ready != "" {
			one.Ready = api.ExecRequest{Args: []string{"sh", "-c", s.Ready}, Dir: within(s.Dir), TimeoutMS: s.Timeout.Milliseconds()}
		}
		out = append(out, one)
	}
	return out
}

// within is a directory of the repository in a sandbox.
func within(dir string) string {
	if dir == "." || dir == "" {
		return dependency.Workspace
	}
	return dependency.Workspace + "/" + dir
}

// titles names the steps of a plan for people.
func titles(plan dependency.Plan) string {
	var out []string
	for _, s := range plan.Steps {
		out = append(out, s.Name)
	}
	const most = 4
	if len(out) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(out[:most], ", "), len(out)-most)
	}
	return strings.Join(out, ", ")
}

// failed is a setup that failed, and when.
type failed struct {
	failure *failure
	at      time.Time
}

// failedFor is how long a task continues without a setup that failed, instead of trying it again.
const failedFor = 10 * time.Minute

// orFailed returns what once does. A task that can do without its setup has the failure of a short time ago, if
// everything that decides about the setup is the same: installing can take minutes to fail.
func (p *Preparer) orFailed(ctx context.Context, j *job) (repo.Layer, func(), error) {
	if j.plan.Recipe || j.q.Required {
		return p.once(ctx, j)
	}
	b, err := json.Marshal([]any{j.key, j.q.Egress, j.q.Secrets, j.q.Sandbox.Isolation, j.q.Sandbox.Limits, j.q.Sandbox.Env})
	if err != nil {
		return "", nil, api.Errorf(api.KindInternal, "setup: %w", err)
	}
	key, now := string(b), p.cfg.Now()
	p.mu.Lock()
	maps.DeleteFunc(p.failed, func(_ string, f failed) bool { return now.Sub(f.at) >= failedFor })
	before, ok := p.failed[key]
	p.mu.Unlock()
	if ok && !j.q.Again {
		l, release, err := p.newest(ctx, j)
		if err != nil {
			return "", nil, err
		}
		if l == "" {
			note(ctx, j.q, fmt.Sprintf("not tried again, because it failed at %s: %v; hortus task --fresh tries it now", before.at.Format("15:04"), before.failure), nil)
			return "", nil, before.failure
		}
		release()
	}
	l, release, err := p.once(ctx, j)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failed, key)
	var f *failure
	if errors.As(err, &f) && ctx.Err() == nil {
		p.failed[key] = failed{f, p.cfg.Now()}
	}
	return l, release, err
}

// flight is one installation that others wait for.
type flight struct {
	done chan struct{}
	// err is set before done is closed; the layer is found by its key.
	err error
}

// maxFresh is how many results of one key there can be: each request for a fresh one makes another.
const maxFresh = 8

// layerKey names a layer of a setup in the store: the nth result of a key.
func layerKey(key string, n int) string {
	if n == 0 {
		return "setup 2 " + key
	}
	return fmt.Sprintf("setup 2 %s fresh %d", key, n)
}

// newest returns the newest layer of a job's key; "" if there is none. The job's own would be the one after it.
func (p *Preparer) newest(ctx context.Context, j *job) (repo.Layer, func(), error) {
	for j.n = maxFresh; j.n > 0; j.n-- {
		l, release, err := p.cfg.Sandboxes.Find(ctx, layerKey(j.key, j.n-1))
		if api.KindOf(err) != api.KindNotFound {
			return l, release, err
		}
	}
	return "", nil, nil
}

// find returns the layer that a job takes instead of making one; "" if it makes one.
func (p *Preparer) find(ctx context.Context, j *job) (repo.Layer, func(), error) {
	l, release, err := p.newest(ctx, j)
	if err != nil || l == "" {
		return "", nil, err
	}
	if j.q.Fresh {
		release()
		if j.n == maxFresh {
			return "", nil, api.Errorf(api.KindExhausted, "this commit was set up %d times already", maxFresh).WithHint("hortus gc removes what no task has used for some time.")
		}
		return "", nil, nil
	}
	// What was damaged on the disk must not decide a gate.
	if err := p.cfg.Sandboxes.Verified(ctx, l); err != nil {
		release()
		if api.KindOf(err) != api.KindNotFound {
			return "", nil, err
		}
		note(ctx, j.q, "what was installed is damaged on the disk, and is installed again", nil)
		j.n--
		return "", nil, nil
	}
	if j.made, err = p.recordOf(ctx, l); err != nil {
		release()
		return "", nil, err
	}
	return l, release, nil
}

// recordOf reads how a layer was made; nothing is known of one without a record.
func (p *Preparer) recordOf(ctx context.Context, l repo.Layer) (r record, err error) {
	b, err := p.cfg.Sandboxes.ReadLayer(ctx, l, recordPath, maxRecord)
	if api.KindOf(err) == api.KindNotFound {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, api.Errorf(api.KindInternal, "the record of the setup in layer %s: %w", l, err)
	}
	return r, nil
}

// once returns the layer of a job: one that is there, or one that is made now by it or by another job.
func (p *Preparer) once(ctx context.Context, j *job) (repo.Layer, func(), error) {
	waited := false
	for {
		l, release, err := p.find(ctx, j)
		if err != nil || l != "" {
			if err == nil {
				note(ctx, j.q, "reused: "+titles(j.plan)+j.made.origin(j.q.Commit), nil)
				for _, lack := range j.made.NotInstalled {
					note(ctx, j.q, lack.Why, nil)
				}
			}
			return l, release, err
		}
		f, mine := p.enter(j.key)
		if mine {
			l, release, err := j.install(ctx)
			if f.err = err; ctx.Err() != nil {
				// Its end says nothing about the setup.
				f.err = nil
			}
			p.leave(j.key, f)
			return l, release, err
		}
		if !waited {
			waited = true
			j.q.Emit(ctx, api.RepoStepEvent{Step: step, Detail: "waits for another task with the same dependencies"})
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
		if f.err != nil {
			note(ctx, j.q, "in another task", f.err)
			return "", nil, f.err
		}
	}
}

// enter returns the flight of a key, and whether the caller has to fly.
func (p *Preparer) enter(key string) (f *flight, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f = p.flights[key]; f != nil {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	p.flights[key] = f
	return f, true
}

func (p *Preparer) leave(key string, f *flight) {
	p.mu.Lock()
	delete(p.flights, key)
	p.mu.Unlock()
	close(f.done)
}
