package repo

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/tool"
)

// Bounds of what is read into the request, in bytes and lines.
const (
	maxGuidance  = 32 << 10
	maxTreeLines = 200
)

// guidance are the files in which a repository says how to work on it.
var guidance = []string{"AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md", ".github/CONTRIBUTING.md", "docs/CONTRIBUTING.md"}

// begin makes the agent: its tools over the seat, its loop, its transcript. What it
// returns ends them.
func (w *work) begin(context.Context) (func(), error) {
	transcript, err := os.OpenFile(TranscriptPath(w.job.Dir), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "open the transcript: %w", err)
	}
	if w.job.Agent != "" {
		desk := Desk{
			Talk: w.box.Talk, Budget: w.budget(), Emit: w.job.Emit, Transcript: transcript,
			Write: func(ctx context.Context, path string, content []byte) error {
				return w.box.WriteFile(ctx, path, content, false)
			},
		}
		talk{w}.desk(&desk)
		w.agent = w.runtime.Work(desk)
		return func() { transcript.Close() }, nil
	}
	outputs := filepath.Join(w.job.Dir, "outputs")
	if err := os.MkdirAll(outputs, 0o700); err != nil {
		transcript.Close()
		return nil, api.Errorf(api.KindInternal, "create the directory for outputs: %w", err)
	}
	keep, err := tool.NewFiles(outputs, 0, 0)
	if err != nil {
		transcript.Close()
		return nil, err
	}
	w.tools = tool.New(tool.Config{Box: w.box, Keep: keep})
	var window int64
	if m, ok := w.job.Model.(interface{ Window() int64 }); ok {
		window = m.Window()
	}
	cfg := loop.Config{
		Window: window,
		Model:  w.journal.model(w.job.Model), Large: w.journal.model(w.job.Large), System: loop.System, Tools: w.journal.tools(w.tools.All()), Budget: w.budget(),
		Emit: pastOf(w).facts(), Transcript: transcript, Role: "agent", Now: pastOf(w).clock,
	}
	talk{w}.into(&cfg)
	w.agent = loop.New(cfg)
	return func() {
		if w.tools != nil {
			w.tools.Close(context.Background())
		}
		keep.Close()
		transcript.Close()
	}, nil
}

// brief is the first message: the request, what decides, and what the repository
// says of itself.
func (w *work) brief(ctx context.Context) (string, error) {
	files, _, err := w.visible(ctx)
	if err != nil {
		return "", err
	}
	b := loop.Brief{Request: w.job.Task.Create.Request, Gate: w.res.Verify, Context: w.req.Context, Mark: string(w.job.Task.ID), Replies: w.replies(), Rules: w.rules(), NoFinish: w.job.Agent != "" || w.job.Turn != nil}
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
	var lines []string
	seen := map[string]bool{}
	for _, f := range files {
		p := f.Path
		if parts := strings.SplitN(p, "/", 3); len(parts) == 3 {
			p = path.Join(parts[0], parts[1]) + "/"
		}
		if !seen[p] {
			seen[p] = true
			lines = append(lines, p)
		}
	}
	if len(lines) > maxTreeLines {
		lines = append(lines[:maxTreeLines], "[and more]")
	}
	b.Tree = strings.Join(lines, "\n")
	return b.Message(), nil
}

// sandbox is what the agent and the gates run in.
func (w *work) sandbox() api.CreateSandbox {
	box := w.job.Task.Sandbox()
	if box.TTLMS == 0 {
		ttl := api.DefaultTTL
		if w.req.Budget.WallMS > 0 {
			ttl = gateGrace * 2
			box.TTLMS = w.req.Budget.WallMS
		}
		box.TTLMS = min(box.TTLMS+ttl.Milliseconds()+w.judge().gateTimeout().Milliseconds(), api.MaxTTL.Milliseconds())
	}
	return box
}
