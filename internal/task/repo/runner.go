package repo

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/platform/flight"
	"hortus.dev/internal/repository/filerule"
	"hortus.dev/internal/repository/forge/policy"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
	"hortus.dev/internal/task/durable"
)

// Layer names an immutable file tree.
type Layer string

// Computers makes the places where things run, and keeps their files.
type Computers interface {
	// Layer returns the tree of that key, which build writes below dir where it is
	// not there yet. It stays until release is called.
	Layer(ctx context.Context, key string, build func(ctx context.Context, dir string) error) (l Layer, release func(), err error)
	// Over makes a layer of changes above base, which stays until release is called.
	// It is used with base below it.
	Over(ctx context.Context, base []Layer, changes []cache.Change) (l Layer, release func(), err error)
	// Workspace makes durable files above layers, the lowest first.
	Workspace(ctx context.Context, task api.TaskID, layers ...Layer) (api.WorkspaceID, error)
	// Attach makes a task the owner of a workspace that a person named, which lies on
	// layers and which nobody uses; if there is none of that name, it makes it.
	// KindConflict names what does not fit.
	Attach(ctx context.Context, task api.TaskID, nameOrID string, layers ...Layer) (api.WorkspaceID, error)
	// Adopt makes a task the owner of a workspace of another one, whose it must be;
	// KindNotFound if it was removed, KindConflict if it has another owner.
	Adopt(ctx context.Context, id api.WorkspaceID, from, to api.TaskID) error
	// Changes reads what was written in a workspace, while nobody has it. dirs have the
	// repositories, if there are several. The second result is what cannot be taken, with
	// the reasons.
	Changes(ctx context.Context, id api.WorkspaceID, dirs ...string) ([]cache.Change, []api.RefusedChange, func(), error)
	// Open starts a sandbox over a workspace, in which not everything can be changed.
	Open(ctx context.Context, req api.CreateSandbox, id api.WorkspaceID, access []filerule.Access) (Computer, error)
	// Clean starts a sandbox over layers, the lowest first, whose changes are lost
	// with it.
	Clean(ctx context.Context, req api.CreateSandbox, layers ...Layer) (Computer, error)
}

// Computer is a sandbox. When a Run's context ends, all of it is killed.
type Computer interface {
	tool.Box
	Info() api.Sandbox
	// Talk starts a program that the host talks to.
	Talk(ctx context.Context, req api.ExecRequest) (Conn, error)
	// Close kills everything in it and frees it. It is idempotent.
	Close(ctx context.Context) (api.Proof, error)
}

// Deliverer brings a branch to the people who review it.
type Deliverer interface {
	// Check is asked before anything is pushed. It says what the branch policy has
	// against a delivery, and what a merge request will aim at. For one it asks the
	// forge, and changes nothing there; an error means that it could not tell.
	Check(ctx context.Context, d Proposal) (Verdict, error)
	// Open opens the merge request of a branch that was pushed, or finds the one
	// that is open already. Beside an error it gives the one that exists all the
	// same.
	Open(ctx context.Context, d Proposal) (api.Delivery, error)
	// Source is where the branch is pushed to, with what opens it.
	Source(ctx context.Context, remote string) (git.Source, error)
}

// Proposal is a branch with its evidence.
type Proposal struct {
	Task   api.Task
	Remote string
	Branch string
	// Target is empty for the forge's default branch.
	Target string
	// MergeRequest is true if more is wanted than a branch.
	MergeRequest, Draft bool
	Files               []policy.File
}

// Verdict is what a [Deliverer] says before a push.
type Verdict struct {
	// Target is what a merge request will aim at.
	Target  string
	Refused []api.PolicyRefusal
}

// Emitter takes the facts of a task as they happen, in order.
type Emitter interface {
	Emit(ctx context.Context, t api.EventType, data any)
}

// Config is what a Runner is made of. All fields but Setup, Runtimes, Sessions, Logger and Now must be set.
type Config struct {
	Git       *cache.Cache
	Computers Computers
	Deliverer Deliverer
	// Setup prepares repositories; nil for none.
	Setup Setup
	// Runtimes are the agents that are programs in the sandbox; nil for none.
	Runtimes Runtimes
	// Sessions keeps what outlives the turns of sessions; nil for no sessions.
	Sessions Sessions
	Now      func() time.Time
	Logger   *slog.Logger
}

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
	// Earlier are the tasks that this one continues, the oldest first. It has the
	// workspace of the last one.
	Earlier []Earlier
	// Turn is set if the task is a turn of a session.
	Turn *Turn
	// Dir is the task's own folder, for outputs and the transcript. It exists.
	Dir  string
	Emit Emitter
	// Save stores what is known so far.
	Save func(ctx context.Context, r api.RepoResult) error
	// Run is the journal of the task; nil if it does not survive its daemon.
	Run *durable.Run
	// Told counts the events of a task that goes on which an earlier daemon told.
	Told map[api.EventType]int
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
}

// Names of the files in a task's folder.
const transcriptFile = "transcript.jsonl"

// TranscriptPath is where a task's transcript is, below its folder.
func TranscriptPath(dir string) string { return filepath.Join(dir, transcriptFile) }

// work is one Run.
type work struct {
	*Runner
	job Job
	req api.RepoTask
	res api.RepoResult
	// members are the repositories. repo and base are the only one and its commit, or all of
	// them combined.
	members roster
	repo    *cache.Repo
	base    cache.Commit
	// files says which files are off limits and which the agent may not change.
	files *filerule.Policy
	// prepared is the result of the setups.
	prepared Prepared
	// logs names the outputs of setups.
	logs logs
	// commands are those of the gate.
	commands []*command
	// release releases the layers.
	release []func()
	agent   Worker
	runtime Runtime   // zero if the agent is the loop
	tools   *tool.Set // nil if it is not
	box     *seat
	// done and skipped are for the receipt.
	steps         sync.Mutex
	done, skipped []string
	left          int
	// collected is the newest round whose changes are committed.
	collected int
	usage     api.Usage
	journal   *agentJournal
	// unrecorded is why the journal cannot be continued.
	unrecorded error
}

// Run does the work. It returns when everything that it started has ended.
func (r *Runner) Run(ctx context.Context, job Job) End {
	w := &work{Runner: r, job: job, req: *job.Task.Create.Repo, box: &seat{}}
	w.res.Branch = Branch(job.Task.ID)
	w.journal = &agentJournal{w: w, life: ctx}
	if err := w.enlist(); err != nil {
		end := failed(err)
		end.Result = w.res
		return end
	}
	if ms := w.req.Budget.WallMS; ms > 0 {
		// The loop names the end of its own time; this is the backstop behind it,
		// for fetches and gates.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(ms)*time.Millisecond+gateGrace, errWall)
		defer cancel()
	}
	end := pastOf(w).lost(w.run(ctx))
	end.Result, end.Usage = w.res, w.usage
	if end.Outcome == api.OutcomeCanceled {
		end.Receipt = &api.Receipt{Completed: nonNil(w.done), Skipped: nonNil(w.skipped), ProcessesLeft: w.left}
	}
	return end
}

// Branch is the name of a task's branch.
func Branch(id api.TaskID) string { return "hortus/" + string(id) }

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
