package repo

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/task/journal"
)

// Worker is the agent of a task. Its calls come one after the other.
type Worker interface {
	// Run says message to the agent and returns when it stops. A later call continues the same conversation, also in
	// another sandbox over the same workspace. Ending its turn is no success: the gate decides.
	Run(ctx context.Context, message string) loop.Report
	// Fresh begins a new conversation, of which the next Run is the first. The budgets continue.
	Fresh()
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
	// New makes the agent of the task.
	New func(WorkerConfig) Worker
}

// AgentSandbox is a sandbox as its agent uses it.
type AgentSandbox interface {
	tool.Sandbox
	// Talk starts a program that the host talks to.
	Talk(ctx context.Context, req api.ExecRequest) (Conn, error)
	// Dial connects with a port of the loopback interface. The error has [envd.ErrPortClosed] in its chain if no program
	// listens there.
	Dial(ctx context.Context, port int) (net.Conn, error)
}

// WorkerConfig is what the agent that is a program is made of.
type WorkerConfig struct {
	// Sandbox is the current one.
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

// agentSpec is who works: the loop with its models, or a program in the sandbox.
type agentSpec struct {
	agent               string // the program; empty for the loop
	model, large, small model.Model
	runtime             Runtime // zero for the loop
	// variant is how a candidate differs from the request.
	variant   api.Variant
	modelName string
}

// as is a task for this one alone.
func (s *agentSpec) as(t api.Task) api.Task {
	if t.Create.Repo.Best == nil {
		return t
	}
	r := *t.Create.Repo
	r.Agent, r.Best = s.agent, nil
	t.Create.Repo, t.Create.Model = &r, s.modelName
	return t
}

// external reports whether it is a program.
func (s *agentSpec) external() bool { return s.agent != "" }

// install installs the program.
func (w *attempt) install(ctx context.Context) error {
	if !w.spec.external() || w.project.req.NoAgent() {
		return nil
	}
	if w.project.cfg.Runtimes == nil {
		return api.Errorf(api.KindUnsupported, "no agents but Hortus's own can be used here")
	}
	q := SetupRequest{
		Task: w.project.task.ID, Sandbox: w.project.sandbox(), NextLog: func() string { return w.project.logs.next(w.project.dir) }, Step: w.steps.do,
		Emit: func(ctx context.Context, e api.RepoStepEvent) { w.steps.tell(ctx, api.EventRepoStep, e) },
	}
	var err error
	if w.spec.runtime, err = w.project.cfg.Runtimes.Prepare(ctx, w.spec.as(w.project.task), q); err != nil {
		return err
	}
	w.held = append(w.held, w.spec.runtime.Release)
	return w.spec.unbidden(ctx, w.project)
}

// unbidden refuses a repository that has what the agent would obey. Files that are off limits are not there.
func (s *agentSpec) unbidden(ctx context.Context, p *project) error {
	if len(s.runtime.Obeys) == 0 {
		return nil
	}
	for _, m := range p.members {
		files, _, err := visible(ctx, m.repo, m.base, m.files)
		if err != nil {
			return err
		}
		for _, f := range files {
			for _, path := range s.runtime.Obeys {
				if f.Path == path || strings.HasPrefix(f.Path, path+"/") {
					return api.Errorf(api.KindDenied, "the repository has %.200s, which the agent %s would follow, and run what it names", f.Path, s.runtime.Label).
						WithHint("use another agent, or hide it: --off-limits '%s/**'", path)
				}
			}
		}
	}
	return nil
}

// layers are those of the workspace, the lowest first.
func (s *agentSpec) layers(p *project) []Layer {
	layers := p.prepared.Below(p.members.layers()...)
	if s.runtime.Layer != "" {
		layers = append([]Layer{s.runtime.Layer}, layers...)
	}
	return layers
}

// access is what cannot be changed in the sandbox of the agent: files of the project, and those of the program.
func (s *agentSpec) access(ctx context.Context, p *project) ([]filerule.Access, error) {
	list, err := p.access(ctx)
	if err == nil && s.runtime.Root != "" {
		list = filerule.Fix(list, s.runtime.Root)
	}
	return list, err
}

// sandboxRequest asks for the sandbox of the agent: that of the task with what the program needs. A gate has neither.
func (s *agentSpec) sandboxRequest(p *project) api.CreateSandbox {
	sandbox := p.prepared.Into(p.sandbox())
	if len(s.runtime.Secrets) > 0 {
		sandbox.Secrets = append(append([]api.SecretGrant(nil), sandbox.Secrets...), s.runtime.Secrets...)
	}
	return sandbox
}

// name names who works, for people.
func (s *agentSpec) name() string {
	if s.external() {
		return s.runtime.Label
	}
	return s.model.Name()
}

// maxGuidance is the longest file that is read into the request, in bytes.
const maxGuidance = 32 << 10

// guidance are the files in which a repository says how to work on it.
var guidance = []string{"AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md", ".github/CONTRIBUTING.md", "docs/CONTRIBUTING.md"}

// begin makes the agent: its tools over the slot, its loop, its transcript. What it
// returns ends them.
func (w *attempt) begin(context.Context) (func(), error) {
	transcript, err := os.OpenFile(TranscriptPath(w.dir), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the transcript: %w", err)
	}
	if w.spec.external() {
		config := WorkerConfig{
			Sandbox: w.slot, Replace: w.swapSandbox, Budget: w.budget(), Emit: w.steps.emitter(), Transcript: transcript,
			Write: func(ctx context.Context, path string, content []byte) error {
				sandbox, err := w.slot.sandbox() // the file policy is about what the agent writes, and this is its configuration
				if err == nil {
					err = sandbox.WriteFile(ctx, path, content, false)
				}
				return err
			},
		}
		w.project.conversation.intoProgram(&config)
		w.agent = w.spec.runtime.New(config)
		return func() { transcript.Close() }, nil
	}
	outputs := filepath.Join(w.dir, "outputs")
	if err := os.MkdirAll(outputs, 0o700); err != nil {
		transcript.Close()
		return nil, api.Errorf(api.KindInternal, "create the directory for outputs: %w", err)
	}
	keep, err := tool.NewFiles(outputs, 0, 0)
	if err != nil {
		transcript.Close()
		return nil, err
	}
	value, err := w.valueCheck()
	if err != nil {
		keep.Close()
		transcript.Close()
		return nil, err
	}
	w.tools = tool.New(tool.Config{Sandbox: w.slot, Keep: keep, Value: value})
	var window int64
	if m, ok := w.spec.model.(interface{ Window() int64 }); ok {
		window = m.Window()
	}
	cfg := loop.Config{
		Window: window,
		Model:  w.answers.Model(w.spec.model), Large: w.answers.Model(w.spec.large), Small: w.answers.Model(w.spec.small), System: loop.System, Tools: w.tools.All(), Budget: w.budget(),
		Reads: tool.Reads(), Do: w.answers.Do(), Replace: w.replaceSandbox,
		Research: w.research(keep),
		Emit:     todoEmitter{w.journal.Once(w.steps.emitter()), w}, Transcript: transcript, Role: "agent", Now: w.journal.Now,
	}
	w.project.conversation.intoLoop(&cfg)
	w.agent = loop.New(cfg)
	return func() {
		if w.tools != nil {
			w.tools.Close(context.Background())
		}
		keep.Close()
		transcript.Close()
	}, nil
}

// todoEmitter keeps the agent's list of its work in the result of the task.
type todoEmitter struct {
	Emitter
	w *attempt
}

// Emit implements Emitter. It is called in the goroutine of the task.
func (l todoEmitter) Emit(ctx context.Context, t api.EventType, data any) {
	if e, ok := data.(api.TodoEvent); ok {
		l.w.res.Todo = e.Items
		if err := l.w.save(ctx); err != nil {
			l.w.project.cfg.Logger.Error("store the list of work", "task", l.w.project.task.ID, "err", err)
		}
	}
	l.Emitter.Emit(ctx, t, data)
}

// brief is the first message: the request, what decides, and what the repository
// says of itself.
func (w *attempt) brief(ctx context.Context) (string, error) {
	files, _, err := w.project.visible(ctx)
	if err != nil {
		return "", err
	}
	b := loop.Brief{Request: w.project.task.Create.Request, Gate: w.res.Verify, Context: slices.Concat(w.project.req.Context, w.project.documents), Mark: string(w.project.task.ID), Replies: w.project.replies(), Attempts: w.attempts(), Rules: w.project.rules(), NoFinish: w.spec.external() || w.project.conversation != nil, Schema: w.project.task.Create.Schema}
	if issue := w.project.issue; issue.Name != "" {
		b.Request += "\n\nThe request is about \"" + issue.Name + "\" below, which says what is wrong or wanted."
		b.Context = append([]api.Document{issue}, b.Context...)
	}
	have := make(map[string]bool, len(files))
	for _, f := range files {
		have[f.Path] = true
	}
	for _, m := range w.project.members {
		for _, name := range guidance {
			if name = m.at(name); !have[name] {
				continue
			}
			text, err := w.project.repo.ReadFile(ctx, w.project.base.Hash, name, maxGuidance)
			if api.KindOf(err) == api.KindExhausted {
				continue // a manual of that length is for the agent to look into
			}
			if err != nil {
				return "", err
			}
			b.Guidance = append(b.Guidance, api.Document{Name: name, Text: string(text)})
		}
	}
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = f.Path
	}
	b.Tree = loop.Tree(paths)
	message := b.Message()
	if g := w.res.Before; g != nil && !g.Passed && w.project.known != nil {
		message += loop.Known(w.project.known(ctx, 0, g.Output))
	}
	if s := w.spec.variant.Strategy; s != "" {
		message += "\nApproach for this attempt: " + s + "\n"
	}
	return message, nil
}

// sandbox is what the agent and the gates run in.
func (w *project) sandbox() api.CreateSandbox {
	sandbox := w.task.Sandbox()
	if sandbox.TTLMS == 0 {
		ttl := api.DefaultTTL
		if w.req.Budget.WallMS > 0 {
			ttl = gateGrace * 2
			sandbox.TTLMS = w.req.Budget.WallMS
		}
		sandbox.TTLMS = min(sandbox.TTLMS+ttl.Milliseconds()+w.gateTimeout().Milliseconds(), api.MaxTTL.Milliseconds())
	}
	return sandbox
}

// replaceWait is how long to wait before the first sandbox takes the place of a lost one. It doubles each time.
const replaceWait = time.Second

// replaceSandbox gives the agent another sandbox over its workspace in the place of one that was lost. A replacement that is recorded
// was made by an earlier daemon: this one has opened a sandbox already.
func (w *attempt) replaceSandbox(ctx context.Context, n int, lost error) error {
	_, err := journal.Do(ctx, w.journal, fmt.Sprint("replacement ", n), nil, func(ctx context.Context, _ journal.Try) (int, error) {
		return n, w.swapSandbox(ctx, n, lost)
	})
	return err
}

// swapSandbox is replace for an agent whose turn is one step of the journal.
func (w *attempt) swapSandbox(ctx context.Context, n int, lost error) error {
	wait := replaceWait << (n - 1)
	w.steps.tell(ctx, api.EventRetry, api.RetryEvent{
		What: api.RetrySandbox, Attempt: n, Of: loop.MaxReplaced, NextAt: w.project.cfg.Now().Add(wait).UTC(), WaitMS: wait.Milliseconds(), Error: bounded(lost.Error(), maxSummary), Candidate: w.candidate,
	})
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.tools != nil {
		w.tools.Close(ctx) // its jobs were those of the old sandbox
	}
	if err := w.vacate(ctx); err != nil {
		return err
	}
	access, err := w.spec.access(ctx, w.project)
	if err != nil {
		return err
	}
	sandbox, err := w.project.cfg.Sandboxes.Open(ctx, w.spec.sandboxRequest(w.project), w.res.Workspace, access)
	if err != nil {
		return err
	}
	w.slot.set(sandbox)
	if err := Serve(ctx, sandbox, w.project.prepared.Services); err != nil {
		return err
	}
	return w.writeProgress(ctx, sandbox)
}
