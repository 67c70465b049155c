package command

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/life"
)

// Rows is where records of commands are kept.
type Rows interface {
	InsertExec(ctx context.Context, e api.Exec) error
	UpdateExec(ctx context.Context, e api.Exec) error
	Exec(ctx context.Context, id api.ExecID) (api.Exec, error)
	ListExecs(ctx context.Context, id api.SandboxID) ([]api.Exec, error)
}

// Config is what Commands needs. All fields are required.
type Config struct {
	Rows    Rows
	Watcher sandbox.Watcher
	Logger  *slog.Logger
	Now     func() time.Time
	// Changed is called when a record was stored: a command of the sandbox starts, or has ended; nil if nobody needs it. It
	// must not block.
	Changed func(id api.SandboxID)
	// Context ends the streams of all commands. It ends when the manager closes, which
	// then waits for what Go started.
	Context context.Context
	Go      func(func())
}

// Commands runs the commands of all sandboxes.
type Commands struct {
	cfg Config

	mu      sync.Mutex
	readers map[*Stream]struct{}
}

// New makes a Commands. It holds nothing that needs to be closed.
func New(cfg Config) *Commands {
	if cfg.Changed == nil {
		cfg.Changed = func(api.SandboxID) {}
	}
	return &Commands{cfg: cfg, readers: map[*Stream]struct{}{}}
}

// graceAfterTimeout is how long a guest may take to report the end of a command that it
// had to kill. After it the host stops believing the guest.
const graceAfterTimeout = 5 * time.Second

// Start runs a command and returns its stream. born, which may be nil, identifies the step that
// created the sandbox, for the watcher.
//
// Errors: KindInvalid for an invalid request or a missing directory, KindNotFound for a
// missing command, KindDenied for one that cannot be executed, KindUnsupported for a user that
// this sandbox does not have, KindConflict and KindUnavailable if the sandbox is not running.
func (c *Commands) Start(ctx context.Context, set *Set, req api.ExecRequest, born context.Context) (_ *Stream, err error) {
	sb := set.Sandbox.Row()
	if req.User == "" {
		req.User = sb.Identities[0]
	}
	args, argsBytes := api.RecordedArgs(req.Args)
	x := &command{
		c: c, set: set, timeout: time.Duration(req.TimeoutMS) * time.Millisecond, stored: make(chan struct{}),
		row: api.Exec{
			ID: api.NewExecID(), Sandbox: sb.ID, Args: args, ArgsBytes: argsBytes, Dir: req.Dir, User: req.User,
			State: api.ExecRunning, StartedAt: c.cfg.Now().UTC(), Exit: api.Exit{Code: -1}, TimeoutMS: req.TimeoutMS,
		},
	}
	ctx, end := c.cfg.Watcher.Begin(ctx, sandbox.Step{Op: sandbox.OpExec, Sandbox: sb.ID, Exec: x.row.ID, After: born})
	x.end = end
	defer func() {
		if err != nil {
			end(sandbox.Outcome{Sandbox: sb.ID, Isolation: sb.Isolation, Err: err})
		}
	}()
	// No save begins until the command has started: a command whose start was not
	// confirmed could not be attached to again.
	if x.saves, err = set.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	defer set.Gate.Leave()
	// It was paused to disk while this waited. A pause that is still under way waits for the
	// gate, and thus for this command's start.
	if set.Sandbox.State() == life.Suspended {
		return nil, Suspended(set.Sandbox.Row())
	}
	// From here on, readers of its record also find its keeper.
	defer set.begin(x.row.ID)()
	if err := c.cfg.Rows.InsertExec(context.WithoutCancel(ctx), x.row); err != nil {
		return nil, err
	}
	c.cfg.Changed(sb.ID)
	// The stream's life is not the caller's: it belongs to the command, and ends with it,
	// with the sandbox, or at the host's own deadline.
	x.ctx, x.cancel = context.WithCancel(c.cfg.Context)
	stopStart := context.AfterFunc(ctx, x.cancel)
	x.stream, err = set.guest.Start(x.ctx, startRequest(req), envd.StartOptions{
		User: req.User, ExecID: string(x.row.ID), Timeout: x.timeout, OutputLimit: sb.Limits.OutputBytes, Keep: true,
	})
	var first *envd.ProcessEvent
	if err == nil {
		first, err = x.stream.Next()
	}
	if err = checkFirst(sb.ID, first, err); !stopStart() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		x.release()
		err = envd.APIError(err)
		x.row.State, x.row.EndedAt = api.ExecUnknown, c.cfg.Now().UTC()
		x.row.Exit = api.Exit{Code: -1, Cause: "not started: " + err.Error()}
		_ = c.store(x.row) // it has been logged, and err has more details
		return nil, err
	}
	x.row.PID, x.start = int(first.Start.PID), *first.Start
	if x.timeout > 0 {
		x.expect(x.timeout + graceAfterTimeout)
	}
	if ended := set.add(x); ended != "" {
		x.abandon(ended)
	}
	return c.newStream(x), nil
}

func startRequest(req api.ExecRequest) *envd.StartRequest {
	start := &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: req.Args[0], Args: req.Args[1:], Envs: req.Env}, Stdin: &req.Stdin}
	if req.Dir != "" {
		start.Process.Cwd = &req.Dir
	}
	if req.Tag != "" {
		start.Tag = &req.Tag
	}
	if req.PTY != nil {
		start.PTY = &envd.PTY{Size: &envd.Size{Cols: uint32(req.PTY.Cols), Rows: uint32(req.PTY.Rows)}}
	}
	return start
}

// Attach streams the output of a command from a byte offset: what the guest has stored, then
// new output. The offset of the first event is where the stored output begins. A negative
// offset requests new output only. If the command ended a while ago, only its record may
// exist; then the stream fails with KindNotFound.
func (c *Commands) Attach(ctx context.Context, set *Set, row api.Exec, offset int64) (*Stream, error) {
	saves, err := set.Gate.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer set.Gate.Leave()
	ps, err := set.guest.Connect(ctx, envd.Selector{}, envd.ConnectOptions{ExecID: string(row.ID), Offset: offset})
	if err != nil {
		return nil, envd.APIError(err)
	}
	first, err := ps.Next()
	if err := checkFirst(row.Sandbox, first, err); err != nil {
		ps.Close()
		return nil, envd.APIError(err)
	}
	return c.newStream(&command{
		c: c, set: set, row: row, stream: ps, start: *first.Start, ctx: ctx, cancel: func() {}, viewer: true, saves: saves, at: first.Start.Offset,
	}), nil
}

// Adopt continues the records of the running commands of a sandbox that another daemon left or
// that was paused to disk. bound returns the remaining time of a command with a timeout. Adopt
// returns their number.
func (c *Commands) Adopt(ctx context.Context, set *Set, bound func(api.Exec) time.Duration) (n int) {
	id := set.Sandbox.Row().ID
	rows, err := c.cfg.Rows.ListExecs(context.WithoutCancel(ctx), id)
	if err != nil {
		c.cfg.Logger.Error("cannot read the commands of a resumed sandbox", "sandbox", id, "error", err)
	}
	for _, row := range rows {
		if row.State != api.ExecRunning {
			continue
		}
		x := &command{c: c, set: set, row: row, at: row.OutputBytes, timeout: time.Duration(row.TimeoutMS) * time.Millisecond, stored: make(chan struct{})}
		x.ctx, x.cancel = context.WithCancel(c.cfg.Context)
		if x.timeout > 0 {
			x.expect(bound(row) + graceAfterTimeout)
		}
		if ended := set.add(x); ended != "" {
			x.abandon(ended)
			continue
		}
		c.cfg.Go(func() {
			if err := x.reconnect(); err != nil {
				_ = x.cut(err)
				return
			}
			x.readOn()
		})
		n++
	}
	return n
}

// EndAll records that a sandbox without a machine ended while its commands ran.
func (c *Commands) EndAll(ctx context.Context, id api.SandboxID, cause string) error {
	rows, err := c.cfg.Rows.ListExecs(ctx, id)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.State != api.ExecRunning {
			continue
		}
		row.State, row.EndedAt = api.ExecUnknown, c.cfg.Now().UTC()
		row.Exit = api.Exit{Code: -1, Cause: cause}
		if err := c.cfg.Rows.UpdateExec(ctx, row); err != nil {
			return err
		}
		c.cfg.Changed(id)
	}
	return nil
}

// storeTimeout limits the write of a record that must be stored even if the caller has
// disconnected.
const storeTimeout = 10 * time.Second

// storePause is the time between two attempts to store the end of a command.
const storePause = 500 * time.Millisecond

// storeEnd is store for the end of a command, which happened once: it tries again while the database cannot be reached, until the
// manager closes.
func (c *Commands) storeEnd(row api.Exec) error {
	for {
		err := c.store(row)
		if kind := api.KindOf(err); kind != api.KindUnavailable && kind != api.KindTimeout {
			return err
		}
		pause := time.NewTimer(storePause)
		select {
		case <-pause.C:
		case <-c.cfg.Context.Done():
			pause.Stop()
			return err
		}
	}
}

// store stores a command's record, and logs if that fails.
func (c *Commands) store(row api.Exec) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	err := c.cfg.Rows.UpdateExec(ctx, row)
	if err != nil {
		c.cfg.Logger.Error("cannot store command record", "exec", row.ID, "sandbox", row.Sandbox, "state", row.State, "error", err)
		return err
	}
	c.cfg.Changed(row.Sandbox)
	return nil
}

func (c *Commands) storeSandbox(s *life.Sandbox) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := s.Store(ctx); err != nil {
		c.cfg.Logger.Error("cannot store sandbox record", "sandbox", s.Row().ID, "error", err)
	}
}

// Check refuses a request that makes no sense.
func Check(req api.ExecRequest) error {
	if len(req.Args) == 0 || req.Args[0] == "" {
		return api.Errorf(api.KindInvalid, "no command was given")
	}
	for _, a := range req.Args {
		if strings.ContainsRune(a, 0) {
			return api.Errorf(api.KindInvalid, "an argument has a NUL byte")
		}
	}
	if req.TimeoutMS < 0 || req.TimeoutMS > api.MaxTTL.Milliseconds() {
		return api.Errorf(api.KindInvalid, "timeout of %d ms is not between 0 and %d", req.TimeoutMS, api.MaxTTL.Milliseconds())
	}
	if strings.ContainsRune(req.User, ':') { // a guest would read on to it only
		return api.Errorf(api.KindInvalid, "%.40q is not a valid user name", req.User)
	}
	if req.PTY != nil && (req.PTY.Cols == 0 || req.PTY.Rows == 0) {
		return api.Errorf(api.KindInvalid, "a terminal size of %dx%d is invalid", req.PTY.Cols, req.PTY.Rows)
	}
	return req.CheckBounds()
}

// Suspended is the error of a request to a sandbox that is paused to disk.
func Suspended(s api.Sandbox) error {
	if s.Moving {
		return Moving(s.ID)
	}
	return api.Errorf(api.KindConflict, "sandbox %s is paused to disk", s.ID).WithHint("resume it first: hortus sandbox resume %s", s.ID)
}

// movedSoon is the time after which a sandbox that is moving can be asked again, in milliseconds.
const movedSoon = 1000

// Moving is the error of a request to a sandbox that is moved to another node.
func Moving(id api.SandboxID) error {
	e := api.Errorf(api.KindUnavailable, "sandbox %s is moving to another node", id).WithHint("try again in a moment; it continues there")
	e.RetryAfterMS = movedSoon
	return e
}

// checkFirst finds a stream that does not begin with a start. Its plain end must not be
// passed on: to a caller io.EOF means that a command ended.
func checkFirst(id api.SandboxID, first *envd.ProcessEvent, err error) error {
	if errors.Is(err, io.EOF) || err == nil && first.Start == nil {
		return api.Errorf(api.KindUnavailable, "the guest of sandbox %s sent an invalid answer", id)
	}
	return err
}
