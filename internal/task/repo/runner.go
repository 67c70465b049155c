package repo

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/platform/flight"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/journal"
)

// Config is what a Runner is made of. All fields but Candidates, Setup, Runtimes, Sessions, Logger and Now must be set.
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
	// Run is the journal of the task; nil if it does not survive its daemon.
	Run *journal.Run
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
}

// Names of the files in a task's folder.
const transcriptFile = "transcript.jsonl"

// TranscriptPath is where a task's transcript is, below its folder.
func TranscriptPath(dir string) string { return filepath.Join(dir, transcriptFile) }

// Run does the work. It returns when everything that it started has ended.
func (r *Runner) Run(ctx context.Context, job Job) End {
	p := r.newProject(job)
	w := p.attempt(api.RepoResult{Branch: Branch(job.Task.ID)}, job.Save)
	w.spec = agentSpec{agent: job.Agent, model: job.Model, large: job.Large, small: job.Small}
	w.answers = journal.NewAgent(w.Run, ctx, tool.Again())
	if err := p.enlist(); err != nil {
		end := failed(err)
		end.Result = w.res
		return end
	}
	w.slot.follow(p.files)
	if ms := w.req.Budget.WallMS; ms > 0 {
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
		end.Receipt = w.receipt()
	}
	return end
}

// Branch is the name of a task's branch.
func Branch(id api.TaskID) string { return "hortus/" + string(id) }
