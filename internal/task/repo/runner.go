package repo

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/platform/flight"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/best"
	"hortus.dev/internal/task/journal"
)

// Config is what a Runner is made of. All fields but Candidates, Setup, Runtimes, Sessions, Archive, Kept, Contents, Logger and Now must be set.
type Config struct {
	Git       *cache.Cache
	Sandboxes Sandboxes
	Deliverer Deliverer
	// Candidates is how many candidates of a task work at a time; 0 is [DefaultCandidates].
	Candidates int
	// Setup prepares repositories; nil for none.
	Setup Setup
	// Runtimes are the agents that are programs in the sandbox; nil for none.
	Runtimes Runtimes
	// Sessions keeps what outlives the turns of sessions; nil for no sessions.
	Sessions Sessions
	// Archive has files for other nodes; nil for none.
	Archive Archive
	// Kept finds what the gate said of a commit before the work of an earlier task, and Contents names all that a request's sandbox has
	// beside its workspace. Without both, the gate runs for each task.
	Kept     Kept
	Contents func(ctx context.Context, req api.CreateSandbox) (string, error)
	Now      func() time.Time
	Logger   *slog.Logger
}

// DefaultCandidates is how many candidates of a task work at a time: most of the time they wait for their models.
const DefaultCandidates = 8

// Runner runs tasks on repositories. It may be used from several goroutines.
type Runner struct {
	cfg Config
	// checkouts are the layers of commits that are being written, by their keys.
	checkouts flight.Group[struct{}]
}

// New makes a Runner.
func New(cfg Config) *Runner {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Candidates = cmp.Or(cfg.Candidates, DefaultCandidates)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Runner{cfg: cfg}
}

// Job is one task with what it needs.
type Job struct {
	Task api.Task
	// Agent names a program in the sandbox that works instead of the loop; Model is nil then. Empty for the loop.
	Agent string
	Model model.Model
	Large model.Model // nil for none
	// Small is for summaries and research; nil for none.
	Small model.Model
	// Candidates are those of a task with several, which has no Agent, Model, Large and Small then.
	Candidates []Candidate
	// Earlier are the tasks that this one continues, the oldest first. It has the
	// workspace of the last one.
	Earlier []EarlierTask
	// Turn is set if the task is a turn of a session.
	Turn *Turn
	// Dir is the task's own folder, for outputs and the transcript. It exists.
	Dir  string
	Emit Emitter
	// Save stores what is known so far.
	Save func(ctx context.Context, r api.RepoResult) error
	// Known finds what fixed a failure before, which the gate printed after a round, or before the work (0). It may be
	// nil, and is called from several goroutines if there are several candidates.
	Known func(ctx context.Context, round int, output string) []api.KnownFix
	// Run is the journal of the task; nil if it does not survive its daemon. Leaves reports whether another node is to continue the task; nil for never.
	Run    *journal.Run
	Leaves func(ctx context.Context) bool
}

// End is how a job ended.
type End struct {
	Outcome   api.Outcome
	Result    api.RepoResult
	Diagnosis string
	Question  string
	Error     *api.Error
	Usage     api.Usage
	Receipt   *api.Receipt
	// Value is the agent's, of a verified task with a schema.
	Value json.RawMessage
	// OldOnly is true for a candidate that is verified if no other one is without leaving failures from before the work.
	OldOnly bool `json:",omitempty"`
}

// transcriptFile is the name of the transcript in a task's folder.
const transcriptFile = "transcript.jsonl"

// TranscriptPath is where a task's transcript is, below its folder.
func TranscriptPath(dir string) string { return filepath.Join(dir, transcriptFile) }

// Run does the work. It returns when everything that it started has ended.
func (r *Runner) Run(ctx context.Context, job Job) End {
	p := r.newProject(job)
	w := p.attempt(api.RepoResult{Branch: Branch(job.Task.ID)}, job.Save)
	w.spec = agentSpec{agent: job.Agent, model: job.Model, large: job.Large, small: job.Small}
	w.answers = journal.NewAgent(w.journal, ctx, tool.Again())
	if err := p.enlist(); err != nil {
		end := failed(err)
		end.Result = w.res
		return end
	}
	w.slot.follow(p.files)
	if ms := w.project.req.Budget.WallMS; ms > 0 {
		// The loop names the end of its own time; this is the backstop behind it,
		// for fetches and gates.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(ms)*time.Millisecond+gateGrace, errWall)
		defer cancel()
	}
	end := w.lost(w.run(ctx, job))
	if w.untouched() && end.Outcome != api.OutcomeLost {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*endTimeout)
		defer cancel()
		w.res = r.Salvage(late, job.Task)
	}
	end.Result, end.Usage = w.res, w.usage
	if end.Outcome == api.OutcomeCanceled {
		end.Receipt = w.steps.receipt()
	}
	return end
}

// Branch is the name of a task's branch in the cache. That of a delivery begins as the branch policy says.
func Branch(id api.TaskID) string { return "hortus/" + string(id) }

// EarlierTask is a task that ended with a question and is continued.
type EarlierTask struct {
	Task api.Task
	// Dir is its folder, with its transcript.
	Dir string
}

// Adopt makes a task the owner of a workspace of another one.
func (r *Runner) Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error {
	return r.cfg.Sandboxes.Adopt(ctx, id, from, to)
}

// last is the result that is continued; nil for a task that begins.
func (w *project) last() *api.RepoResult {
	if n := len(w.earlier); n > 0 {
		return w.earlier[n-1].Task.Repo
	}
	return w.conversation.before()
}

// replies are the questions with their answers, and what was done before each.
func (w *project) replies() []loop.Reply {
	var out []loop.Reply
	for i, e := range w.earlier {
		r := loop.Reply{Diagnosis: e.Task.Diagnosis, Question: e.Task.Question, Answer: w.task.Reply, Calls: w.callsIn(TranscriptPath(e.Dir))}
		if e.Task.Repo != nil {
			r.Summary = e.Task.Repo.Summary
		}
		if i+1 < len(w.earlier) {
			r.Answer = w.earlier[i+1].Task.Reply
		}
		out = append(out, r)
	}
	return out
}

// Salvage commits what a task had written whose daemon died in the middle. Its
// sandboxes must have ended. What cannot be committed stays in the workspace.
func (r *Runner) Salvage(ctx context.Context, t api.Task) api.RepoResult {
	res := *t.Repo
	if len(res.Candidates) > 0 && res.Commit != "" && slices.ContainsFunc(res.Candidates, func(c api.Candidate) bool { return c.Workspace != "" }) {
		res = r.salvageBest(ctx, t)
		t.Repo = &res
	}
	if res.Workspace == "" || res.Commit == "" {
		return res
	}
	p := r.newProject(Job{Task: t})
	w := p.attempt(res, func(context.Context, api.RepoResult) error { return nil })
	err := p.locate(ctx, res)
	if err == nil {
		_, err = w.collect(ctx, len(res.Rounds), true)
	}
	if err != nil {
		r.cfg.Logger.Error("cannot commit the work of a lost task; keeping its workspace", "task", t.ID, "workspace", res.Workspace, "err", err)
		return res
	}
	w.res.Partial = w.res.Head != ""
	return w.res
}

// untouched reports whether a task that continues has ended before it came to the workspaces that its row names.
func (w *attempt) untouched() bool {
	was := w.project.task.Repo
	if was == nil || w.project.conversation != nil || w.res.Workspace != "" || w.res.Candidates != nil {
		return false
	}
	return was.Workspace != "" || slices.ContainsFunc(was.Candidates, func(c api.Candidate) bool { return c.Workspace != "" })
}

// salvageBest takes the work of the best candidate, as far as is known, of a task that was lost before it chose, and removes
// the others.
func (r *Runner) salvageBest(ctx context.Context, t api.Task) api.RepoResult {
	res := *t.Repo
	res.Candidates = slices.Clone(res.Candidates)
	p := r.newProject(Job{Task: t})
	if err := p.locate(ctx, res); err != nil {
		r.cfg.Logger.Error("cannot commit the work of a lost task; keeping its workspaces", "task", t.ID, "err", err)
		return res
	}
	scores := make([]best.Score, len(res.Candidates))
	for i, c := range res.Candidates {
		scores[i] = best.ScoreOf(c)
		scores[i].Changed = c.Workspace != "" // what it has written is not known
	}
	chosen := slices.ContainsFunc(res.Candidates, func(c api.Candidate) bool { return c.Chosen })
	for i, o := range best.Rank(scores) {
		c := &res.Candidates[o.N-1]
		if !chosen {
			c.Chosen = i == 0
		}
		if c.Chosen && c.Workspace != "" {
			res.Workspace = api.WorkspaceID(c.Workspace)
		}
		c.State, c.Why = api.CandidateEnded, cmp.Or(c.Why, "the task was lost")
	}
	p.discard(ctx, res.Candidates)
	return res
}
