package http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/envd"
	"hortus.dev/client"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/server/once"
)

// fakes plays every part that stands behind the server.
type fakes struct {
	key    context.Context // ends requests as a key that expires does; nil never does
	id     api.SandboxID
	task   api.TaskID
	guest  func(net.Conn) // plays the guest on one stream
	gone   error          // why the sandbox does not run; nil if it does
	follow func(after int64) iter.Seq2[api.Event, error]
	script []*envd.ProcessEvent
	// none is the kind of error that results of repositories have; endless makes
	// reading them fail in the middle.
	none    api.Kind
	endless bool

	stalled time.Duration // Config.Stalled
	stored  error         // the answer of Upload

	remotes *remotes // plays connected repositories
	saves   *saves   // plays snapshots
	egress  *outside // plays policies
	images  httpapi.Images
	secrets httpapi.Secrets
	exports httpapi.Templates
	once    *once.Keeper
	// fresh has each sandbox get an id of its own; creates counts the calls.
	fresh   bool
	creates atomic.Int32
	// waits ends a wait for capacity; left, unless it is nil, is closed if the request ends first.
	waits, left chan struct{}

	mu      sync.Mutex
	started []api.ExecRequest
	killed  chan struct{}
	kills   int
	wg      sync.WaitGroup
}

func (f *fakes) newSandbox() api.Sandbox {
	return api.Sandbox{ID: f.id, State: api.SandboxRunning, Isolation: "container"}
}

func (f *fakes) Upload(context.Context, api.SandboxID, int64) error { return f.stored }

func (f *fakes) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	f.creates.Add(1)
	if strings.HasPrefix(req.Isolation, "waits") {
		if told := api.WaitToldOf(ctx); told != nil {
			told(api.WaitingEvent{Cause: api.WaitDisk, Why: "1 GiB are free", Position: 3, Of: 3})
			told(api.WaitingEvent{Cause: api.WaitDisk, Why: "2 GiB are free", Position: 2, Of: 3})
		}
		select {
		case <-f.waits:
		case <-ctx.Done():
			close(f.left)
			return api.Sandbox{}, ctx.Err()
		}
		if req.Isolation == "waits in vain" {
			req.Isolation = "full"
		}
	}
	if req.Isolation == "magic" {
		return api.Sandbox{}, api.Errorf(api.KindUnisolated, "no backend magic").WithHint("try container")
	}
	if req.Isolation == "full" {
		return api.Sandbox{}, &api.Error{Kind: api.KindExhausted, Message: "no room", RetryAfterMS: 1001}
	}
	sandbox := f.newSandbox()
	if f.fresh {
		sandbox.ID = api.NewSandboxID()
	}
	return sandbox, nil
}
func (f *fakes) Get(_ context.Context, id api.SandboxID) (api.Sandbox, error) {
	if id != f.id {
		return api.Sandbox{}, api.Errorf(api.KindNotFound, "there is no sandbox %q", id)
	}
	return f.newSandbox(), nil
}
func (f *fakes) Page(context.Context, bool, api.PageRequest) ([]api.Sandbox, string, error) {
	return []api.Sandbox{f.newSandbox()}, "", nil
}
func (f *fakes) Find(_ context.Context, prefix string) (api.SandboxID, error) {
	if !strings.HasPrefix(string(f.id), prefix) {
		return "", api.Errorf(api.KindNotFound, "there is no sandbox %q", prefix)
	}
	return f.id, nil
}
func (f *fakes) SetTTL(context.Context, api.SandboxID, time.Duration) (api.Sandbox, error) {
	return f.newSandbox(), nil
}
func (f *fakes) Pause(context.Context, api.SandboxID) (api.Sandbox, error) {
	return api.Sandbox{}, api.Errorf(api.KindUnsupported, "pause is missing here")
}
func (f *fakes) Resume(context.Context, api.SandboxID) (api.Sandbox, error) {
	return f.newSandbox(), nil
}
func (f *fakes) Stats(context.Context, api.SandboxID) (api.Stats, error)     { return api.Stats{}, nil }
func (f *fakes) Samples(context.Context, api.SandboxID) ([]api.Stats, error) { return nil, nil }
func (f *fakes) ExecPage(context.Context, api.SandboxID, api.PageRequest) ([]api.Exec, string, error) {
	return nil, "", nil
}
func (f *fakes) Exec(_ context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error) {
	return api.Exec{}, api.Errorf(api.KindNotFound, "sandbox %s has no command %s", id, exec)
}
func (f *fakes) Held(context.Context, api.SandboxID) error { return nil }
func (f *fakes) Kill(context.Context, api.SandboxID) (api.Sandbox, api.Proof, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kills++; f.kills == 1 {
		close(f.killed)
	}
	return f.newSandbox(), api.Proof{How: "test"}, nil
}
func (f *fakes) StartExec(_ context.Context, _ api.SandboxID, req api.ExecRequest) (httpapi.ExecStream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = append(f.started, req)
	if f.gone != nil {
		return nil, f.gone
	}
	if req.Args[0] == "nosuch" {
		return nil, api.Errorf(api.KindNotFound, "command not found: nosuch")
	}
	return &script{events: f.script}, nil
}
func (f *fakes) AttachExec(context.Context, api.SandboxID, api.ExecID, int64) (httpapi.ExecStream, error) {
	return &script{events: f.script}, nil
}
func (f *fakes) ExecClient(_ context.Context, id api.SandboxID, exec api.ExecID) (*envd.Client, error) {
	return nil, api.Errorf(api.KindNotFound, "sandbox %s has no command %s", id, exec)
}
func (f *fakes) KillExec(ctx context.Context, id api.SandboxID, exec api.ExecID) (api.Exec, error) {
	return f.Exec(ctx, id, exec)
}
func (f *fakes) Guest(context.Context, api.SandboxID) (net.Conn, error) {
	if f.gone != nil {
		return nil, f.gone
	}
	if f.guest == nil {
		return nil, api.Errorf(api.KindUnavailable, "the guest is gone")
	}
	here, there := net.Pipe()
	f.wg.Go(func() { defer there.Close(); f.guest(there) })
	return here, nil
}

func (f *fakes) Dial(_ context.Context, id api.SandboxID, port int) (net.Conn, error) {
	if port != 3000 {
		return nil, api.Errorf(api.KindUnavailable, "sandbox %s, port %d: %w", id, port, envd.ErrPortClosed).WithHint("listen")
	}
	return f.Guest(context.Background(), id)
}

// script is a command whose events are known beforehand.
type script struct {
	events []*envd.ProcessEvent
	n      int
}

func (s *script) Exec() api.Exec { return api.Exec{ID: "x0123456789abcdefghi"} }
func (s *script) Close() error   { return nil }

// Ended never comes: the sandbox outlives the stream.
func (s *script) Ended() <-chan struct{} { return nil }
func (s *script) Next() (*envd.ProcessEvent, error) {
	if s.n == len(s.events) {
		return nil, io.EOF
	}
	s.n++
	return s.events[s.n-1], nil
}

func (f *fakes) Follow(_ context.Context, _ api.Stream, after int64) iter.Seq2[api.Event, error] {
	return f.follow(after)
}

func (f *fakes) Read(_ context.Context, s api.Stream, after int64, _ int) ([]api.Event, error) {
	return []api.Event{{Stream: s, Seq: after + 1, Type: api.EventTaskStarted}}, nil
}

func (f *fakes) Changes(ctx context.Context) (iter.Seq[[]api.Stream], error) {
	return func(func([]api.Stream) bool) { <-ctx.Done() }, nil
}

func (f *fakes) Ready(context.Context) error {
	return api.Errorf(api.KindUnavailable, "1 of 2 guests are warm")
}

func (f *fakes) Info(context.Context) (admin.DaemonInfo, error) {
	return admin.DaemonInfo{PID: 42}, nil
}
func (f *fakes) Doctor(context.Context) (admin.Doctor, error) { return admin.Doctor{}, nil }
func (f *fakes) Stop(context.Context, bool) error             { return nil }
func (f *fakes) StopKeeping(context.Context, bool) error      { return nil }

// tasks has the methods that would clash with those of sandboxes.
type tasks struct{ *fakes }

func (t tasks) Create(_ context.Context, req api.CreateTask) (api.Task, error) {
	return api.Task{ID: t.task, Create: req}, nil
}
func (t tasks) Get(context.Context, api.TaskID) (api.Task, error) { return api.Task{ID: t.task}, nil }
func (t tasks) Page(context.Context, bool, api.PageRequest) ([]api.Task, string, error) {
	return nil, "", nil
}
func (t tasks) Find(_ context.Context, p string) (api.TaskID, error) {
	if !strings.HasPrefix(string(t.task)[1:], p) {
		return "", api.Errorf(api.KindNotFound, "there is no task %q", p)
	}
	return t.task, nil
}
func (t tasks) Cancel(context.Context, api.TaskID) (api.Task, error) {
	return api.Task{ID: t.task}, nil
}
func (t tasks) Reply(_ context.Context, id api.TaskID, req api.ReplyTask) (api.Task, error) {
	return api.Task{ID: api.NewTaskID(), Continues: id, Reply: req.Reply}, nil
}
func (t tasks) Output(context.Context, api.TaskID, int, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("out\x00put")), nil
}

func (t tasks) Stats(_ context.Context, since time.Time) (admin.TaskStats, error) {
	return admin.TaskStats{Since: since, Tasks: 7}, nil
}

// repo plays the engine's results of tasks on repositories: it tells what it was
// asked, or what there is none of.
func (t tasks) repo(what string, args ...any) (io.ReadCloser, error) {
	switch t.none {
	case "":
		if t.endless {
			return io.NopCloser(io.MultiReader(strings.NewReader("begun"), iotest.ErrReader(errors.New("the file is gone")))), nil
		}
		return io.NopCloser(strings.NewReader(fmt.Sprintln(append([]any{what}, args...)...))), nil
	case api.KindNotFound:
		return nil, api.Errorf(api.KindNotFound, "no %s", what)
	}
	return nil, api.Errorf(t.none, "no %s yet", what).WithHint("wait")
}
func (t tasks) Diff(_ context.Context, id api.TaskID, round int, repository string) (io.ReadCloser, error) {
	return t.repo("diff", id, round, repository)
}
func (t tasks) Applied(_ context.Context, id api.TaskID) (api.Task, error) {
	return api.Task{ID: id, Repo: &api.RepoResult{Applied: true}}, nil
}
func (t tasks) Deliver(_ context.Context, id api.TaskID, req api.DeliverTask) (api.Task, error) {
	if t.none != "" {
		_, err := t.repo("delivery")
		return api.Task{}, err
	}
	return api.Task{ID: id, Repo: &api.RepoResult{Delivery: &api.Delivery{Pushed: req.Remote, Target: req.Target, Created: req.MergeRequest}}}, nil
}
func (t tasks) Bundle(_ context.Context, id api.TaskID, repository string) (io.ReadCloser, error) {
	return t.repo("bundle", id, repository)
}
func (t tasks) Transcript(_ context.Context, id api.TaskID, _ int) (io.ReadCloser, error) {
	return t.repo("transcript", id)
}
func (t tasks) GateOutput(_ context.Context, id api.TaskID, round int, which string) (io.ReadCloser, error) {
	return t.repo("gate", id, round, which)
}

type noRoles struct{}

func (noRoles) Plan(context.Context, string, api.PlanRequest) (api.ExecutionPlan, error) {
	return api.ExecutionPlan{Language: api.Python}, nil
}
func (noRoles) Code(context.Context, string, api.ExecutionPlan) (api.CodeArtifact, error) {
	return api.CodeArtifact{}, nil
}
func (noRoles) Debug(context.Context, string, api.DebugRequest) (api.Diagnosis, error) {
	return api.Diagnosis{}, nil
}

// serve opens the server on a real socket and gives its path and a client.
func serve(t *testing.T, f *fakes) (*client.Client, string) {
	t.Helper()
	f.id, f.task, f.killed = api.NewSandboxID(), api.NewTaskID(), make(chan struct{})
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := httpapi.Config{
		Sandboxes: f, Tasks: tasks{f}, Roles: noRoles{}, Events: f, System: f, Upkeep: upkeep{}, Snapshots: f.saves, Stalled: f.stalled, Egress: f.egress,
	}
	if f.once != nil {
		cfg.Once = f.once
	}
	if f.images != nil {
		cfg.Images = f.images
	}
	if f.secrets != nil {
		cfg.Secrets = f.secrets
	}
	if f.exports != nil {
		cfg.Templates = f.exports
	}
	if f.remotes != nil {
		cfg.Repositories = f.remotes
	}
	server := httpapi.New(cfg)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := api.Operator()
		if account := r.Header.Get("Test-Account"); account != "" {
			p = api.Principal{Role: api.RoleUser, Account: account}
		}
		ctx, cancel := context.WithCancel(api.WithPrincipal(r.Context(), p))
		defer cancel()
		if f.key != nil {
			defer context.AfterFunc(f.key, cancel)()
		}
		server.ServeHTTP(w, r.WithContext(ctx))
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(httpapi.NewListener(ln)) }()
	c := client.Unix(path)
	t.Cleanup(func() {
		c.Close()
		srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		f.wg.Wait()
	})
	return c, path
}
