package exec

import (
	"errors"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/output"
	"hortus.dev/internal/guest/process"
	"hortus.dev/internal/guest/rpc"
)

const maxExecID = 128

// Service serves the requests about commands.
type Service struct {
	ids       *identity.Set
	processes *process.Manager
	waits     bool // commands may be warm-ups; see birth.Config.Waits
}

// New returns a service. If warmUps is true, commands may be warm-ups.
func New(ids *identity.Set, processes *process.Manager, warmUps bool) *Service {
	return &Service{ids: ids, processes: processes, waits: warmUps}
}

// Handlers returns the handlers by their paths.
func (s *Service) Handlers() map[string]rpc.Handler {
	return map[string]rpc.Handler{
		envd.ProcStart:       s.start,
		envd.ProcConnect:     s.connect,
		envd.ProcList:        rpc.Unary(s.list),
		envd.ProcUpdate:      rpc.Unary(s.update),
		envd.ProcSendInput:   rpc.Unary(s.sendInput),
		envd.ProcStreamInput: s.streamInput,
		envd.ProcSendSignal:  rpc.Unary(s.sendSignal),
		envd.ProcCloseStdin:  rpc.Unary(s.closeStdin),
	}
}

// options are the options in the headers of a Start or Connect.
type options struct {
	rpc.StreamOptions
	execID string
	limit  int64
	offset int64 // -1 for new output only
	record bool  // the client is the host that keeps the record
}

func optionsOf(req *http.Request) (o options, err error) {
	o = options{execID: req.Header.Get(envd.HeaderExecID), record: req.Header.Get(envd.HeaderKeep) != ""}
	if len(o.execID) > maxExecID {
		return o, api.Errorf(api.KindInvalid, "%s: longer than %d bytes", envd.HeaderExecID, maxExecID)
	}
	if o.StreamOptions, err = rpc.StreamOptionsOf(req); err != nil {
		return o, err
	}
	if o.limit, err = rpc.IntHeader(req, envd.HeaderOutputLimit, 0); err != nil {
		return o, err
	}
	o.offset, err = rpc.IntHeader(req, envd.HeaderOffset, -1)
	return o, err
}

// follower is a client that reads the output of a command.
type follower struct {
	*rpc.Conn
	*rpc.Stream
}

// End sends the end of the command and ends the stream.
func (f follower) End(end *envd.EndEvent) error {
	if !f.Extended() {
		if end.Cause == api.CauseTimeout {
			return f.Finish(&envd.Error{Code: envd.CodeDeadlineExceeded, Message: "the process was killed at its timeout"})
		}
		if end.Cause != "" {
			plain := *end
			plain.Cause = ""
			end = &plain
		}
	}
	if err := f.Message(&envd.ProcessResponse{Event: &envd.ProcessEvent{End: end}}); err != nil {
		return err
	}
	return f.Finish(nil)
}

func (f follower) begin(start envd.StartEvent) {
	f.Message(&envd.ProcessResponse{Event: &envd.ProcessEvent{Start: &start}})
}

// start serves Start: it starts a command and moves its output.
func (s *Service) start(c *rpc.Conn, req *http.Request) error {
	var in envd.StartRequest
	codec, ok, err := c.StreamRequest(req, &in)
	if !ok {
		return err
	}
	opt, err := optionsOf(req)
	if err != nil {
		return c.FailStream(codec, err)
	}
	id, err := s.ids.Of(req)
	if err != nil {
		return c.FailStream(codec, err)
	}
	p, err := s.processes.Start(id, &in, process.Options{ExecID: opt.execID, Timeout: opt.Timeout, OutputLimit: opt.limit})
	if err != nil {
		return c.FailStream(codec, err)
	}
	f := follower{c, c.Begin(codec)}
	f.begin(envd.StartEvent{PID: uint32(p.PID())})
	err = s.processes.Follow(p, f, opt.Keepalive, opt.record && c.Extended())
	if s.waits && req.Header.Get(envd.HeaderWarmUp) != "" {
		err = errors.Join(err, s.afterWarmUp())
	}
	return err
}

// afterWarmUp does work in advance that would delay the user's first command.
func (s *Service) afterWarmUp() error {
	// Release what the warm-up allocated.
	runtime.GC()
	return s.processes.PrepareThreads()
}

// connect serves Connect: it sends the kept output from an offset, or new output only, and
// then the end.
func (s *Service) connect(c *rpc.Conn, req *http.Request) error {
	var in envd.ConnectRequest
	codec, ok, err := c.StreamRequest(req, &in)
	if !ok {
		return err
	}
	opt, err := optionsOf(req)
	if err != nil {
		return c.FailStream(codec, err)
	}
	if !c.Extended() {
		opt.offset, opt.execID, opt.record = -1, "", false
	}
	p, err := s.processes.Lookup(in.Process, opt.execID)
	if err != nil {
		return c.FailStream(codec, err)
	}
	r, err := p.Subscribe(opt.offset, opt.record)
	if err != nil {
		return c.FailStream(codec, err)
	}
	defer func() {
		switch {
		case c.CutOff():
			p.Log.Reserve(r.Offset())
		case opt.record:
			p.Log.ReserveOfHost(r.Offset())
		}
		r.Close()
	}()
	gone, stop := c.WatchHangup()
	defer stop()
	f := follower{c, c.Begin(codec)}
	start := envd.StartEvent{PID: uint32(p.PID())}
	if c.Extended() {
		start.Offset = r.Offset()
	}
	f.begin(start)
	return s.follow(f, r, opt, gone)
}

// follow sends what a reader reads.
func (s *Service) follow(f follower, r *output.Reader, opt options, gone <-chan struct{}) error {
	buf := output.GetBuffer()
	defer output.PutBuffer(buf)
	var tick <-chan time.Time
	if opt.Keepalive > 0 {
		t := time.NewTicker(opt.Keepalive)
		defer t.Stop()
		tick = t.C
	}
	// Here the timeout ends the stream, not the command.
	over, stopOver := opt.Over()
	defer stopOver()
	for {
		out, from, n, end := r.Read(*buf)
		switch {
		case n > 0:
			if err := f.Data(out, from, (*buf)[:n]); err != nil {
				return err
			}
			if !f.Full() {
				continue
			}
		case end != nil:
			return f.End(end)
		}
		if err := f.Flush(); err != nil {
			return err
		}
		if n > 0 && !opt.Late() {
			continue
		}
		select {
		case <-over:
			return f.Finish(envd.FromAPI(rpc.ErrStreamTimeout))
		case <-r.Ready():
		case <-gone:
			return rpc.ErrGone
		case <-f.Ended():
			return rpc.ErrGone
		case <-tick:
			f.Message(&envd.ProcessResponse{Event: &envd.ProcessEvent{Keepalive: &envd.Empty{}}})
		}
	}
}

func (s *Service) list(_ *rpc.Conn, _ *http.Request, _ *envd.Empty) (*envd.ListResponse, error) {
	return &envd.ListResponse{Processes: s.processes.List()}, nil
}

func (s *Service) selected(req *http.Request, sel *envd.Selector) (*process.Process, error) {
	return s.processes.Lookup(sel, req.Header.Get(envd.HeaderExecID))
}

func (s *Service) sendSignal(c *rpc.Conn, req *http.Request, in *envd.SendSignalRequest) (*envd.Empty, error) {
	p, err := s.selected(req, in.Process)
	if err != nil {
		return nil, err
	}
	sig := unix.Signal(in.Signal)
	if sig != unix.SIGTERM && sig != unix.SIGKILL && (!c.Extended() || sig < 1 || sig > 31) {
		return nil, api.Errorf(api.KindInvalid, "signal %d cannot be sent", in.Signal)
	}
	return &envd.Empty{}, s.processes.Signal(p, sig)
}
