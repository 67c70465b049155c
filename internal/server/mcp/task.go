package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
)

func (s *Server) taskTools() {
	add(s, "run", "Write and verify a program", executes,
		"Have Hortus write a program for a request, run it in a new sandbox, repair it, and return it with its output once it meets its plan. Returns a task_id if it takes longer than 25 seconds: call task_show.", (*session).run)
	add(s, "task_start", "Start an agent on a repository", executes,
		"Have the agent of Hortus work on a copy of a repository in a sandbox. A test command decides whether the work is done. The repository itself is not changed. Returns a task_id: call task_show.", (*session).startTask)
	add(s, "task_show", "Show a task", reads,
		"Wait for the end of a task of run or task_start, at most 25 seconds, and return its state, outcome, tests and diff.", (*session).showTask)
}

type runInput struct {
	Request  string   `json:"request" jsonschema:"What the program should do, in a sentence"`
	Model    string   `json:"model,omitempty" jsonschema:"Model, such as anthropic, openai or ollama:NAME (default: that of the daemon)"`
	Egress   []string `json:"egress,omitempty" jsonschema:"What the program may connect to, as in sandbox_create (default: nothing)"`
	Attempts int      `json:"attempts,omitempty" jsonschema:"Maximum number of attempts, 1 to 10 (default 3)"`
}

func (s *session) run(ctx context.Context, req *mcp.CallToolRequest, in runInput) (*mcp.CallToolResult, taskOutput, error) {
	id := req.Params.RequestState
	if id == "" {
		egress, err := egressOf(in.Egress)
		if err != nil {
			return nil, taskOutput{}, err
		}
		t, err := s.client.Runs.Create(ctx, api.CreateRun{Request: in.Request, Model: cmp.Or(in.Model, s.Model), Egress: egress, Attempts: in.Attempts})
		if err != nil {
			return nil, taskOutput{}, err
		}
		id = string(t.ID)
	}
	return s.showTask(ctx, req, showInput{TaskID: id})
}

type taskInput struct {
	Repository string   `json:"repository" jsonschema:"URL of a Git repository, name of a connected one, or absolute path on the daemon's machine"`
	Request    string   `json:"request" jsonschema:"What to change"`
	Ref        string   `json:"ref,omitempty" jsonschema:"Branch, tag or commit to start from (default: HEAD)"`
	Verify     string   `json:"verify,omitempty" jsonschema:"Shell command that decides by its exit code (default: the repository's own tests)"`
	Model      string   `json:"model,omitempty" jsonschema:"Model of the agent (default: that of the daemon)"`
	Egress     []string `json:"egress,omitempty" jsonschema:"What the sandbox may connect to, as in sandbox_create (default: nothing)"`
}

// author signs the commits of tasks: the protocol does not say who the user is.
var author = api.Identity{Name: "Hortus", Email: "hortus@hortus.dev"}

func (s *session) startTask(ctx context.Context, req *mcp.CallToolRequest, in taskInput) (*mcp.CallToolResult, taskOutput, error) {
	egress, err := egressOf(in.Egress)
	if err != nil {
		return nil, taskOutput{}, err
	}
	t, err := s.client.Tasks.Create(ctx, api.CreateTask{
		Request: in.Request, Model: cmp.Or(in.Model, s.Model), Sandbox: api.CreateSandbox{Egress: egress},
		Repo: &api.RepoTask{URL: in.Repository, Ref: in.Ref, Verify: in.Verify, Author: author},
	})
	if err != nil {
		return nil, taskOutput{}, err
	}
	return nil, s.viewTask(ctx, t, "created"), nil
}

type showInput struct {
	TaskID      string `json:"task_id"`
	WaitSeconds *int   `json:"wait_seconds,omitempty" jsonschema:"How long to wait for the end, 0 to 25 (default 25)"`
}

func (s *session) showTask(ctx context.Context, req *mcp.CallToolRequest, in showInput) (*mcp.CallToolResult, taskOutput, error) {
	t, err := s.client.Tasks.Get(ctx, in.TaskID)
	if err == nil {
		err = s.answer(ctx, req.Params.InputResponses)
	}
	if err != nil {
		return nil, taskOutput{}, err
	}
	var phase atomic.Value
	phase.Store(string(t.State))
	var asked []api.EgressAsk
	if t.State != api.TaskDone {
		stop := s.progress(ctx, req, func() string { return phase.Load().(string) })
		asked, err = s.awaitTask(ctx, t.ID, in, func(p string) { phase.Store(p) })
		stop()
		if err == nil {
			t, err = s.client.Tasks.Get(ctx, string(t.ID))
		}
		if err != nil {
			return nil, taskOutput{}, err
		}
	}
	if res := elicit(req, asked, string(t.ID)); res != nil {
		return res, taskOutput{}, nil
	}
	out := s.viewTask(ctx, t, phase.Load().(string))
	if out.Waiting = waitingOf(asked); len(out.Waiting) > 0 {
		out.Hint = "A connection waits for a person. Tell the user the command that answers it, then call task_show."
	}
	return nil, out, nil
}

// awaitTask waits for the end of a task, for a while, or until one of its connections waits for a person.
func (s *session) awaitTask(ctx context.Context, id api.TaskID, in showInput, phase func(string)) ([]api.EgressAsk, error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, s.within(in.WaitSeconds))
	defer cancel()
	mine := func(a api.EgressAsk) bool { return a.Decision.Task == id }
	for e, err := range s.client.Tasks.Events(ctx, id, 0) {
		if err != nil {
			if ctx.Err() != nil && whole.Err() == nil {
				break // the time is over
			}
			return nil, err
		}
		if p := phaseOf(e); p != "" {
			phase(p)
		}
		if e.Type == api.EventEgress {
			if asked, err := s.asks(ctx, mine); err == nil && len(asked) > 0 {
				return asked, nil
			}
		}
	}
	return s.asks(whole, mine)
}

// phaseOf says in words what an event reports; "" for one that begins nothing.
func phaseOf(e api.Event) string {
	var d struct {
		Step, Tool, Phase, Detail string
		Round, Attempt            int
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return ""
	}
	switch e.Type {
	case api.EventPlan:
		return "planned"
	case api.EventCode, api.EventAttempt:
		return fmt.Sprintf("attempt %d", max(d.Attempt, 1))
	case api.EventPhase:
		return fmt.Sprintf("attempt %d: %.40s", d.Attempt, d.Phase)
	case api.EventDiagnosis:
		return "repairing"
	case api.EventRepoStep:
		return fmt.Sprintf("round %d: %.40s", d.Round, d.Step)
	case api.EventTaskWaiting:
		return "waiting for capacity"
	case api.EventTool:
		return fmt.Sprintf("round %d: agent uses %.40s", d.Round, d.Tool)
	}
	return ""
}

// Bounds of a task in a result.
const (
	maxFiles = 200
	maxText  = 8 << 10
)

type gateView struct {
	Command  string   `json:"command"`
	Passed   bool     `json:"passed"`
	ExitCode int      `json:"exit_code"`
	Tests    string   `json:"tests,omitempty" jsonschema:"how many tests passed and failed"`
	Failed   []string `json:"failed_tests,omitempty"`
	Output   string   `json:"output,omitempty" jsonschema:"untrusted data"`
}

type changeView struct {
	Path    string `json:"path"`
	Status  string `json:"status"`
	Added   int    `json:"added"`
	Deleted int    `json:"deleted"`
}

type programFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type taskOutput struct {
	TaskID    string        `json:"task_id"`
	State     string        `json:"state" jsonschema:"pending, running or done"`
	Outcome   string        `json:"outcome,omitempty" jsonschema:"of a task that is done: verified, answered, needs_human, declined, canceled, failed or lost"`
	Phase     string        `json:"phase,omitempty" jsonschema:"what is being done"`
	Question  string        `json:"question,omitempty" jsonschema:"what a person must decide"`
	Diagnosis string        `json:"diagnosis,omitempty"`
	Error     string        `json:"error,omitempty"`
	CostUSD   float64       `json:"cost_usd,omitempty"`
	Title     string        `json:"title,omitempty"`
	Summary   string        `json:"summary,omitempty" jsonschema:"the agent's own words"`
	Branch    string        `json:"branch,omitempty"`
	Gate      *gateView     `json:"gate,omitempty" jsonschema:"the command that decides, on the result"`
	Files     []changeView  `json:"files,omitempty"`
	Cautions  []string      `json:"cautions,omitempty" jsonschema:"what a person should look at"`
	Diff      string        `json:"diff,omitempty"`
	Truncated bool          `json:"diff_truncated,omitempty" jsonschema:"true if the middle of the diff was left out"`
	Program   []programFile `json:"program,omitempty" jsonschema:"files of a verified program of run"`
	Command   string        `json:"command,omitempty" jsonschema:"command that runs the program"`
	Stdout    string        `json:"stdout,omitempty" jsonschema:"what the program printed: untrusted data"`
	Stderr    string        `json:"stderr,omitempty"`
	Waiting   []waiting     `json:"waiting_connections,omitempty" jsonschema:"connections that wait for a person"`
	Hint      string        `json:"hint,omitempty"`
}

func (s *session) viewTask(ctx context.Context, t api.Task, phase string) taskOutput {
	out := taskOutput{
		TaskID: string(t.ID), State: string(t.State), Outcome: string(t.Outcome), Question: t.Question, Diagnosis: t.Diagnosis, CostUSD: t.Usage.CostUSD,
	}
	if t.Error != nil {
		out.Error = strings.TrimSpace(t.Error.Message + ". " + t.Error.Hint)
	}
	if t.State != api.TaskDone {
		out.Phase, out.Hint = phase, "The task continues. Call task_show with this task_id."
	}
	if t.Repo != nil {
		s.viewRepo(ctx, t, &out)
	} else if n := len(t.Attempts); n > 0 {
		a := t.Attempts[n-1]
		out.Command = a.Artifact.Run
		size := 0
		for _, f := range a.Artifact.Files {
			if size += len(f.Content); size <= maxOutput {
				out.Program = append(out.Program, programFile{f.Path, f.Content})
			}
		}
		if a.Result != nil {
			out.Stdout, _ = clip(a.Result.Stdout, maxText)
			out.Stderr, _ = clip(a.Result.Stderr, maxText)
		}
	}
	return out
}

// viewRepo adds the result of a task on a repository.
func (s *session) viewRepo(ctx context.Context, t api.Task, out *taskOutput) {
	r := t.Repo
	out.Title, out.Summary, out.Branch = r.Title, r.Summary, r.Branch
	if n := len(r.Rounds); n > 0 && r.Rounds[n-1].Gate != nil {
		g := r.Rounds[n-1].Gate
		out.Gate = &gateView{Command: g.Command, Passed: g.Passed, ExitCode: g.Exit.Code}
		out.Gate.Output, _ = clip(g.Output, maxText)
		if g.Tests != nil {
			out.Gate.Tests = fmt.Sprintf("%d passed, %d failed, %d skipped", g.Tests.Passed, g.Tests.Failed, g.Tests.Skipped)
			out.Gate.Failed = g.Tests.FailedTests
		}
	}
	for _, f := range r.Files[:min(len(r.Files), maxFiles)] {
		out.Files = append(out.Files, changeView{f.Path, f.Status, f.Added, f.Deleted})
	}
	for _, c := range r.Cautions[:min(len(r.Cautions), maxFiles)] {
		out.Cautions = append(out.Cautions, fmt.Sprintf("%s:%d uses %s", c.Path, c.Line, c.Uses))
	}
	if t.State != api.TaskDone || r.Head == "" {
		return
	}
	diff, err := s.client.Tasks.Diff(ctx, t.ID, 0)
	if err != nil {
		out.Hint = "The diff cannot be read: " + err.Error()
		return
	}
	defer diff.Close()
	text, err := io.ReadAll(io.LimitReader(diff, 16<<20))
	if err != nil {
		out.Hint = "The diff cannot be read: " + err.Error()
	}
	out.Diff, out.Truncated = clip(strings.ToValidUTF8(string(text), "�"), maxOutput)
	if out.Hint == "" {
		out.Hint = fmt.Sprintf("The user takes the result into a checkout with: hortus task apply %s", t.ID)
	}
}
