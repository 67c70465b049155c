package repo

import (
	"context"
	"os"
	"path/filepath"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
)

// maxGuidance is the longest file that is read into the request, in bytes.
const maxGuidance = 32 << 10

// guidance are the files in which a repository says how to work on it.
var guidance = []string{"AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md", ".github/CONTRIBUTING.md", "docs/CONTRIBUTING.md"}

// begin makes the agent: its tools over the seat, its loop, its transcript. What it
// returns ends them.
func (w *attempt) begin(context.Context) (func(), error) {
	transcript, err := os.OpenFile(TranscriptPath(w.dir), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the transcript: %w", err)
	}
	if w.spec.external() {
		desk := WorkerConfig{
			Sandbox: w.slot, Replace: w.swapSandbox, Budget: w.budget(), Emit: w.emitter(), Transcript: transcript,
			Write: func(ctx context.Context, path string, content []byte) error {
				box, err := w.slot.sandbox() // the file policy is about what the agent writes, and this is its configuration
				if err == nil {
					err = box.WriteFile(ctx, path, content, false)
				}
				return err
			},
		}
		w.continueProgram(&desk)
		w.agent = w.spec.runtime.New(desk)
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
		Emit:     todoEmitter{w.Run.Once(w.emitter()), w}, Transcript: transcript, Role: "agent", Now: w.Run.Now,
	}
	w.continueLoop(&cfg)
	w.agent = loop.New(cfg)
	return func() {
		if w.tools != nil {
			w.tools.Close(context.Background())
		}
		keep.Close()
		transcript.Close()
	}, nil
}

// listed keeps the agent's list of its work in the result of the task.
type todoEmitter struct {
	Emitter
	w *attempt
}

// Emit implements Emitter. It is called in the goroutine of the task.
func (l todoEmitter) Emit(ctx context.Context, t api.EventType, data any) {
	if e, ok := data.(api.TodoEvent); ok {
		l.w.res.Todo = e.Items
		if err := l.w.save(ctx); err != nil {
			l.w.cfg.Logger.Error("store the list of work", "task", l.w.task.ID, "err", err)
		}
	}
	l.Emitter.Emit(ctx, t, data)
}

// brief is the first message: the request, what decides, and what the repository
// says of itself.
func (w *attempt) brief(ctx context.Context) (string, error) {
	files, _, err := w.visible(ctx)
	if err != nil {
		return "", err
	}
	b := loop.Brief{Request: w.task.Create.Request, Gate: w.res.Verify, Context: w.req.Context, Mark: string(w.task.ID), Replies: w.replies(), Attempts: w.attempts(), Rules: w.rules(), NoFinish: w.spec.external() || w.turn != nil, Schema: w.task.Create.Schema}
	have := make(map[string]bool, len(files))
	for _, f := range files {
		have[f.Path] = true
	}
	for _, m := range w.members {
		for _, name := range guidance {
			if name = m.at(name); !have[name] {
				continue
			}
			text, err := w.repo.ReadFile(ctx, w.base.Hash, name, maxGuidance)
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
	if g := w.res.Before; g != nil && !g.Passed && w.known != nil {
		message += loop.Known(w.known(ctx, 0, g.Output))
	}
	if s := w.spec.variant.Strategy; s != "" {
		message += "\nApproach for this attempt: " + s + "\n"
	}
	return message, nil
}

// sandbox is what the agent and the gates run in.
func (w *project) sandbox() api.CreateSandbox {
	box := w.task.Sandbox()
	if box.TTLMS == 0 {
		ttl := api.DefaultTTL
		if w.req.Budget.WallMS > 0 {
			ttl = gateGrace * 2
			box.TTLMS = w.req.Budget.WallMS
		}
		box.TTLMS = min(box.TTLMS+ttl.Milliseconds()+w.gateTimeout().Milliseconds(), api.MaxTTL.Milliseconds())
	}
	return box
}
