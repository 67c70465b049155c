package http

import (
	"cmp"
	"context"
	"io"
	"iter"
	"log/slog"
	"net"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/guestproxy"
)

// Sandboxes is what the server needs of sandboxes.
type Sandboxes interface {
	Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// Page lists those that live, or all, the newest first. next is where the next page
	// begins, "" after the last.
	Page(ctx context.Context, all bool, p api.PageRequest) (rows []api.Sandbox, next string, err error)
	Find(ctx context.Context, prefix string) (api.SandboxID, error)
	SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error)
	Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Stats(ctx context.Context, id api.SandboxID) (api.Stats, error)
	// Samples returns what it used during the last hour, the oldest first.
	Samples(ctx context.Context, id api.SandboxID) ([]api.Stats, error)
	Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error)
	ExecPage(ctx context.Context, id api.SandboxID, p api.PageRequest) (rows []api.Exec, next string, err error)
	// Exec returns one command of a sandbox.
	Exec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error)
	// Upload refuses a file of about so many bytes that the account of the sandbox has no space for.
	Upload(ctx context.Context, id api.SandboxID, bytes int64) error
	// Held notes that a sandbox is to live as long as a connection.
	Held(ctx context.Context, id api.SandboxID) error
	// StartExec runs a command and streams it; the command is recorded and
	// continues when the stream is closed.
	StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (ExecStream, error)
	AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (ExecStream, error)
	// ExecClient returns a client of the guest for the input and the signals of one command that
	// runs, which an empty selector means. The caller closes it.
	ExecClient(ctx context.Context, id api.SandboxID, exec api.ExecID) (*envd.Client, error)
	// KillExec kills a command's process group and waits for its recorded end.
	KillExec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error)
	// Guest opens a raw stream to the guest.
	Guest(ctx context.Context, id api.SandboxID) (net.Conn, error)
	// Dial opens a stream to a port inside.
	Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error)
}

// ExecStream is a command's events. Next gives io.EOF after the end.
type ExecStream = guestproxy.ExecStream

// Tasks is what the server asks of tasks.
type Tasks interface {
	Create(ctx context.Context, req api.CreateTask) (api.Task, error)
	Get(ctx context.Context, id api.TaskID) (api.Task, error)
	// Page leaves out tasks on repositories if programs is set.
	Page(ctx context.Context, programs bool, p api.PageRequest) (rows []api.Task, next string, err error)
	Find(ctx context.Context, prefix string) (api.TaskID, error)
	Cancel(ctx context.Context, id api.TaskID) (api.Task, error)
	// Reply creates a task that continues one which ended with a question.
	Reply(ctx context.Context, id api.TaskID, req api.ReplyTask) (api.Task, error)
	Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error)
	Stats(ctx context.Context, since time.Time) (admin.TaskStats, error)
	RepoTasks
}

// Roles asks each role of the pipeline alone.
type Roles interface {
	Plan(ctx context.Context, model string, req api.PlanRequest) (api.ExecutionPlan, error)
	Code(ctx context.Context, model string, plan api.ExecutionPlan) (api.CodeArtifact, error)
	Debug(ctx context.Context, model string, req api.DebugRequest) (api.Diagnosis, error)
}

// Events reads the log.
type Events interface {
	// Follow yields what is stored after a number, then what comes.
	Follow(ctx context.Context, s api.Stream, after int64) iter.Seq2[api.Event, error]
	// Read returns what is stored after a number, at most limit.
	Read(ctx context.Context, s api.Stream, after int64, limit int) ([]api.Event, error)
	// Changes yields batches of streams of the caller's that got events from the call on. A nil batch stands for any.
	Changes(ctx context.Context) (iter.Seq[[]api.Stream], error)
}

// System is the daemon itself.
type System interface {
	Info(ctx context.Context) (admin.DaemonInfo, error)
	// Ready returns what keeps the daemon from serving at full speed.
	Ready(ctx context.Context) error
	Doctor(ctx context.Context) (admin.Doctor, error)
	Stop(ctx context.Context, force bool) error
	// StopKeeping is Stop that leaves sandboxes running for the next daemon.
	StopKeeping(ctx context.Context, force bool) error
}

// Console is the web console.
type Console interface {
	// Link returns a link that signs in a browser as the caller.
	Link(ctx context.Context) (admin.ConsoleLink, error)
}

// Config is what a server leads to. Once, Provisions, Code, Images, Templates, Builds, BuildFiles and Tokens may be nil: what
// needs them is refused then, and URLs hold no tokens.
type Config struct {
	Sandboxes Sandboxes
	Tasks     Tasks
	Roles     Roles
	Events    Events
	System    System
	Upkeep    Upkeep
	Snapshots Snapshots
	Egress    Egress
	Secrets   Secrets
	Lessons   Lessons
	Documents Documents
	Keys      Keys
	// Repositories are the connected ones.
	Repositories Repositories
	// Hooks takes the events of forges; nil refuses them.
	Hooks      Hooks
	Images     Images
	Templates  Templates
	Builds     Builds
	BuildFiles BuildFiles
	Once       Once
	Provisions Provisions
	Code       Code
	Tokens     Tokens
	Workspaces Workspaces
	Sessions   Sessions
	Plans      Plans
	// Console makes links to the web console.
	Console Console
	// Fleet are the nodes that share the database.
	Fleet Fleet
	// Forward passes requests on to other nodes of a fleet; nil if there is none.
	Forward *forward.Forwarder
	// URL is where clients find the daemon, as in https://hortus.example; empty for
	// what each request says itself.
	URL string
	// PortURL makes the URL of a port of a sandbox of the caller's.
	PortURL func(s api.Sandbox, port int) (api.PortURL, error)
	// Stalled is how long a client may leave a stream of events untaken before it is
	// ended; 0 for [DefaultStalled].
	Stalled time.Duration
	Logger  *slog.Logger
}

// New makes the server's handler.
func New(cfg Config) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	cfg.Stalled = cmp.Or(cfg.Stalled, DefaultStalled)
	d := &Server{Config: cfg, once: idempotency{kept: cfg.Once}}
	d.register()
	return d
}
