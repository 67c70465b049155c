package sandbox

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// graceAfterTimeout is how long a guest may take to report the end of a command
// that it had to kill. After it the host stops believing the guest.
const graceAfterTimeout = 5 * time.Second

// StartExec runs a command and gives its stream. The record is stored before the
// command starts and its end is stored whether or not anybody reads on: a stream
// that is closed early leaves the command running.
//
// Errors: KindInvalid for a request that makes no sense or names a directory
// that is not there, KindNotFound for a command that is not there, KindDenied
// for one that cannot be executed, KindUnsupported for an identity that this
// sandbox does not have, KindConflict and KindUnavailable for a sandbox that
// does not run.
func (m *Manager) StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (_ *ExecStream, err error) {
	if err := checkExec(req); err != nil {
		return nil, err
	}
	l, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	if req.User == "" {
		req.User = l.row.Identities[0]
	}
	args, argsBytes := api.RecordedArgs(req.Args)
	x := &running{
		live: l, timeout: time.Duration(req.TimeoutMS) * time.Millisecond, stored: make(chan struct{}),
		row: api.Exec{
			ID: api.NewExecID(), Sandbox: id, Args: args, ArgsBytes: argsBytes, Dir: req.Dir, User: req.User,
			State: api.ExecRunning, StartedAt: m.now().UTC(), Exit: api.Exit{Code: -1}, TimeoutMS: req.TimeoutMS,
		},
	}
	ctx, end := m.step(ctx, Step{Op: OpExec, Sandbox: id, Exec: x.row.ID, After: l.first()})
	x.end = end
	defer func() {
		if err != nil {
			end(Outcome{Sandbox: id, Isolation: l.row.Isolation, Err: err})
		}
	}()
	// Until it has begun, nobody saves the sandbox: a command that was asked for
	// and not heard of cannot be taken up again.
	if x.saves, err = l.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer l.gate.leave()
	if l.isParked() { // while this waited
		return nil, pausedToDisk(id)
	}
	// Whoever finds its record from here on finds who keeps it.
	defer l.begins(x.row.ID)()
	if err := m.cfg.Rows.InsertExec(context.WithoutCancel(ctx), x.row); err != nil {
		return nil, err
	}
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
	// The stream's life is not the caller's: it belongs to the exec, and ends
	// with the command, the sandbox or the host's own deadline.
	streamCtx, cancel := context.WithCancel(m.ctx)
	stopStart := context.AfterFunc(ctx, cancel)
	ps, err := l.guest.Start(streamCtx, start, envd.StartOptions{
		User: req.User, ExecID: string(x.row.ID), Timeout: x.timeout, OutputLimit: l.row.Limits.OutputBytes,
		Keep: true,
	})
	var first *envd.ProcessEvent
	if err == nil {
		first, err = ps.Next()
	}
	if err = disagreed(id, first, err); !stopStart() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		if ps != nil {
			ps.Close()
		}
		err = m.startFailed(x, err)
		return nil, err
	}
	x.stream, x.ctx, x.cancel = ps, streamCtx, cancel
	x.row.PID = int(first.Start.PID)
	x.start = *first.Start
	if x.timeout > 0 {
		x.expect(x.timeout + graceAfterTimeout)
	}
	l.mu.Lock()
	settled := l.settled
	l.execs[x.row.ID] = x
	l.mu.Unlock()
	if settled {
		x.abandon(m, l.snapshot().Reason)
	}
	return m.opened(x), nil
}

// startFailed stores that a command never ran, or that nobody knows.
func (m *Manager) startFailed(x *running, err error) error {
	var e *envd.Error
	if errors.As(err, &e) {
		err = e.API()
	}
	x.row.State, x.row.EndedAt = api.ExecUnknown, m.now().UTC()
	x.row.Exit = api.Exit{Code: -1, Cause: "not started: " + err.Error()}
	_ = m.storeExec(x.row) // it has been logged, and err says more
	return err
}

// storeExec stores a command's record, and logs it where that fails.
func (m *Manager) storeExec(row api.Exec) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := m.cfg.Rows.UpdateExec(ctx, row)
	if err != nil {
		m.log.Error("record of command not stored", "exec", row.ID, "sandbox", row.Sandbox, "state", row.State, "error", err)
	}
	return err
}

func checkExec(req api.ExecRequest) error {
	if len(req.Args) == 0 || req.Args[0] == "" {
		return api.Errorf(api.KindInvalid, "no command was given")
	}
	for _, a := range req.Args {
		for i := range len(a) {
			if a[i] == 0 {
				return api.Errorf(api.KindInvalid, "an argument holds a NUL byte, which no command can be given")
			}
		}
	}
	if req.TimeoutMS < 0 || req.TimeoutMS > api.MaxTTL.Milliseconds() {
		return api.Errorf(api.KindInvalid, "timeout of %d ms is not between 0 and %d", req.TimeoutMS, api.MaxTTL.Milliseconds())
	}
	if strings.ContainsRune(req.User, ':') { // a guest would read on to it only
		return api.Errorf(api.KindInvalid, "no user has a name like %.40q", req.User)
	}
	if req.PTY != nil && (req.PTY.Cols == 0 || req.PTY.Rows == 0) {
		return api.Errorf(api.KindInvalid, "a terminal of %dx%d has no room", req.PTY.Cols, req.PTY.Rows)
	}
	return req.CheckBounds()
}

// AttachExec streams the output of a command from a byte offset on: what the
// guest has kept of it, then what comes. The first event's offset tells where
// the kept output begins; a negative offset asks for what comes alone. A command
// that ended a while ago may be known by its record only; then the stream fails
// with KindNotFound and Manager.Execs has its exit.
func (m *Manager) AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (*ExecStream, error) {
	row, err := m.cfg.Rows.Exec(ctx, exec)
	if err != nil {
		return nil, err
	}
	if row.Sandbox != id {
		return nil, api.Errorf(api.KindNotFound, "sandbox %s has no command %s", id, exec)
	}
	l, err := m.running(ctx, id)
	if err != nil {
		return nil, err
	}
	saves, err := l.gate.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.gate.leave()
	ps, err := l.guest.Connect(ctx, envd.Selector{}, envd.ConnectOptions{ExecID: string(exec), Offset: offset})
	if err != nil {
		return nil, guestError(err)
	}
	first, err := ps.Next()
	if err := disagreed(id, first, err); err != nil {
		ps.Close()
		return nil, guestError(err)
	}
	return m.opened(&running{
		live: l, row: row, stream: ps, start: *first.Start, ctx: ctx, cancel: func() {}, viewer: true, saves: saves, at: first.Start.Offset,
	}), nil
}

// disagreed finds a stream that does not begin with a start. Its plain end must
// not be passed on: to a caller io.EOF means that a command ended.
func disagreed(id api.SandboxID, first *envd.ProcessEvent, err error) error {
	if errors.Is(err, io.EOF) || err == nil && first.Start == nil {
		return api.Errorf(api.KindUnavailable, "the guest of sandbox %s did not answer as agreed", id)
	}
	return err
}

func guestError(err error) error {
	var e *envd.Error
	if errors.As(err, &e) {
		return e.API()
	}
	return err
}

// ExecStream is one reader of a command's events. It is for one goroutine.
type ExecStream struct {
	m       *Manager
	x       *running
	started bool
	done    bool
	// kept is since when the caller has the last event, in Unix nanoseconds, or waiting
	// while it waits for the next one.
	kept atomic.Int64
}

// waiting stands for no moment.
const waiting = -1

// Exec gives the record as it stands; after Next returned io.EOF it is final.
func (s *ExecStream) Exec() api.Exec { return s.x.record() }

// Next gives the next event: the start, then output, then the end. After the end
// it returns io.EOF. The event is valid until the next call. The end comes when the
// command's record says so, to whoever reads: who asks for the record then does not
// find a command that runs. An end that the guest did not report is no event: Next
// fails with KindUnavailable or KindTimeout, and the record says that the exit is
// unknown. Nor is one that could not be recorded: Next fails with the store's error.
func (s *ExecStream) Next() (*envd.ProcessEvent, error) {
	s.kept.Store(waiting)
	defer func() { s.kept.Store(s.m.now().UnixNano()) }()
	if !s.started {
		s.started = true
		return &envd.ProcessEvent{Start: &s.x.start}, nil
	}
	if s.done {
		return nil, io.EOF
	}
	ev, err := s.x.next(s.m)
	switch {
	case err != nil && s.x.goesOn():
		_ = s.Close() // the record still wants its end
	case err != nil || ev.End != nil:
		s.over()
	}
	return ev, err
}

// over notes that nobody reads on.
func (s *ExecStream) over() {
	s.done = true
	s.m.readers.leave(s)
}

// Ended is closed when the sandbox serves no more in this daemon: it ended, was paused
// to disk, or was left to the next daemon. Next fails then; who waits for something
// else, as a reader that takes nothing has its writer wait, would not hear of it.
func (s *ExecStream) Ended() <-chan struct{} { return s.x.live.ended }

// Close gives up reading. A command that still runs goes on; the manager sees to
// its record.
func (s *ExecStream) Close() error {
	if s.done {
		return nil
	}
	s.over()
	if s.x.viewer {
		return s.x.stream.Close()
	}
	s.m.wg.Go(func() { s.x.readOn(s.m) })
	return nil
}
