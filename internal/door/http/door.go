package http

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// Sandboxes is what the door asks of sandboxes.
type Sandboxes interface {
	Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	List(ctx context.Context, all bool) ([]api.Sandbox, error)
	Find(ctx context.Context, prefix string) (api.SandboxID, error)
	SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error)
	Pause(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Resume(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Stats(ctx context.Context, id api.SandboxID) (api.Stats, error)
	Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error)
	Execs(ctx context.Context, id api.SandboxID) ([]api.Exec, error)
	// StartExec runs a command and streams it; the command is recorded and
	// goes on when the stream is closed.
	StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (ExecStream, error)
	AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (ExecStream, error)
	// Guest opens a raw stream to the guest.
	Guest(ctx context.Context, id api.SandboxID) (net.Conn, error)
}

// ExecStream is a command's events. Next gives io.EOF after the end.
type ExecStream interface {
	Exec() api.Exec
	Next() (*envd.ProcessEvent, error)
	Close() error
}

// Tasks is what the door asks of tasks.
type Tasks interface {
	Create(ctx context.Context, req api.CreateTask) (api.Task, error)
	Get(ctx context.Context, id api.TaskID) (api.Task, error)
	List(ctx context.Context, limit int) ([]api.Task, error)
	Find(ctx context.Context, prefix string) (api.TaskID, error)
	Cancel(ctx context.Context, id api.TaskID) (api.Task, error)
	Output(ctx context.Context, id api.TaskID, attempt int, stream string) (io.ReadCloser, error)
	Stats(ctx context.Context, since time.Time) (api.TaskStats, error)
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
	Follow(ctx context.Context, s api.Stream, after int64) iter.Seq2[api.Event, error]
}

// System is the daemon itself.
type System interface {
	Info(ctx context.Context) (api.DaemonInfo, error)
	// Ready says what keeps the daemon from serving at full speed.
	Ready(ctx context.Context) error
	Doctor(ctx context.Context) (api.Doctor, error)
	Bench(ctx context.Context, req api.BenchRequest, report func(api.BenchRow), progress func(api.BenchProgress)) error
	Stop(ctx context.Context, force bool) error
}

// Config is what a door leads to.
type Config struct {
	Sandboxes Sandboxes
	Tasks     Tasks
	Roles     Roles
	Events    Events
	System    System
	Upkeep    Upkeep
	Snapshots Snapshots
	Logger    *slog.Logger
}

// door is the handler.
type door struct {
	Config
	proxy http.Handler
}

// New makes the door's handler.
func New(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &door{Config: cfg}
	d.proxy = d.newProxy()
	mux := http.NewServeMux()
	d.systemRoutes(mux)
	d.upkeepRoutes(mux)
	d.sandboxRoutes(mux)
	d.snapshotRoutes(mux)
	d.taskRoutes(mux)
	d.repoRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, api.Errorf(api.KindNotFound, "there is no %s %.200s", r.Method, r.URL.Path))
	})
	return mux
}
