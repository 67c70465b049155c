package guest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// connect serves Connect: it gives the kept output from an offset on, or what
// comes from now on, and then the end.
func (s *Server) connect(c *conn, req *http.Request) error {
	var in envd.ConnectRequest
	codec, ok, err := c.streamRequest(req, &in)
	if !ok {
		return err
	}
	opt, err := startOptionsOf(c, req)
	if err != nil {
		return c.failStream(codec, err)
	}
	if !c.hortus {
		opt.offset, opt.execID, opt.keep = -1, "", false
	}
	p, err := s.table.lookup(in.Process, opt.execID)
	if err != nil {
		return c.failStream(codec, err)
	}
	sub, err := p.subscribe(opt.offset, opt.keep)
	if err != nil {
		return c.failStream(codec, err)
	}
	defer func() {
		switch {
		case c.cutOff():
			p.hold(sub.at)
		case opt.keep:
			p.keep(sub.at)
		}
		p.unsubscribe(sub)
	}()
	gone, stop := c.watchHangup()
	defer stop()
	c.out.begin(c, codec)
	start := &envd.StartEvent{PID: uint32(p.pid)}
	if c.hortus {
		start.Offset = sub.at
	}
	c.out.message(&envd.ProcessResponse{Event: &envd.ProcessEvent{Start: start}})
	buf := getBuf()
	defer bufs.Put(buf)
	var tick <-chan time.Time
	if opt.keepalive > 0 {
		t := time.NewTicker(opt.keepalive)
		defer t.Stop()
		tick = t.C
	}
	// The lifetime of a process is its start's; here it is how long to follow.
	over, stopOver := opt.over()
	defer stopOver()
	for {
		out, from, n, end := p.read(sub, *buf)
		switch {
		case n > 0:
			if err := c.out.data(out, from, (*buf)[:n]); err != nil {
				return err
			}
			if !c.out.full() {
				continue
			}
		case end != nil:
			return c.sendEnd(end)
		}
		if err := c.out.flush(); err != nil {
			return err
		}
		if n > 0 && !opt.late() {
			continue
		}
		select {
		case <-over:
			return c.out.finish(envd.FromAPI(errFollowed))
		case <-sub.wake:
		case <-gone:
			return errGone
		case <-c.ended:
			return errGone
		case <-tick:
			c.out.message(&envd.ProcessResponse{Event: &envd.ProcessEvent{Keepalive: &envd.Empty{}}})
		}
	}
}

func (s *Server) list(_ *conn, _ *http.Request, _ *envd.Empty) (*envd.ListResponse, error) {
	return &envd.ListResponse{Processes: s.table.list()}, nil
}

func (s *Server) update(_ *conn, req *http.Request, in *envd.UpdateRequest) (*envd.Empty, error) {
	p, err := s.selected(req, in.Process)
	if err != nil {
		return nil, err
	}
	if in.PTY != nil {
		if err := p.resize(in.PTY.Size); err != nil {
			return nil, err
		}
	}
	return &envd.Empty{}, nil
}

func (s *Server) selected(req *http.Request, sel *envd.Selector) (*process, error) {
	return s.table.lookup(sel, req.Header.Get(envd.HeaderExecID))
}

func (s *Server) sendSignal(c *conn, req *http.Request, in *envd.SendSignalRequest) (*envd.Empty, error) {
	p, err := s.selected(req, in.Process)
	if err != nil {
		return nil, err
	}
	sig := unix.Signal(in.Signal)
	if sig != unix.SIGTERM && sig != unix.SIGKILL && (!c.hortus || sig < 1 || sig > 31) {
		return nil, api.Errorf(api.KindInvalid, "signal %d cannot be sent", in.Signal)
	}
	if err := s.reaper.signal(p, sig); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil, api.Errorf(api.KindNotFound, "process %d has ended", p.pid)
		}
		return nil, api.Errorf(api.KindInternal, "signal process %d: %w", p.pid, err)
	}
	return &envd.Empty{}, nil
}

func (s *Server) closeStdin(_ *conn, req *http.Request, in *envd.CloseStdinRequest) (*envd.Empty, error) {
	p, err := s.selected(req, in.Process)
	if err != nil {
		return nil, err
	}
	if p.isPTY {
		return nil, api.Errorf(api.KindInvalid, "process %d has a terminal; send it an end-of-file character instead", p.pid)
	}
	p.mu.Lock()
	f := p.input
	p.input = nil
	p.mu.Unlock()
	if f != nil {
		f.Close()
	}
	return &envd.Empty{}, nil
}

func (s *Server) sendInput(c *conn, req *http.Request, in *envd.SendInputRequest) (*envd.Empty, error) {
	p, err := s.selected(req, in.Process)
	if err != nil {
		return nil, err
	}
	return &envd.Empty{}, p.feed(in.Input, c)
}

func (p *process) inputFile() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.input
}

// feed writes to a process's input. It waits while the process does not read;
// the process's end, and the client's, end the wait.
func (p *process) feed(in *envd.ProcessInput, c *conn) error {
	if in == nil || (in.Stdin == nil && in.PTY == nil) {
		return api.Errorf(api.KindInvalid, "the request holds no input")
	}
	data := in.Stdin
	if (in.PTY != nil) != p.isPTY {
		return api.Errorf(api.KindInvalid, "process %d: input for a terminal goes to a terminal, and other input does not", p.pid)
	}
	if p.isPTY {
		data = in.PTY
	}
	f := p.inputFile()
	if f == nil {
		return api.Errorf(api.KindConflict, "process %d takes no input: it is closed, or never was open", p.pid)
	}
	for len(data) > 0 {
		// The deadline only makes the wait look around; nothing is lost by it.
		f.SetWriteDeadline(time.Now().Add(inputPatience))
		// Looked at after the deadline is set, which who ends the connection
		// shortens afterwards.
		if c.cutOff() {
			return errGone
		}
		n, err := f.Write(data)
		data = data[n:]
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if c.hungUp() {
				return errGone
			}
		case errors.Is(err, unix.EPIPE), errors.Is(err, os.ErrClosed), errors.Is(err, unix.EIO):
			return api.Errorf(api.KindConflict, "process %d takes no more input", p.pid)
		default:
			return api.Errorf(api.KindInternal, "write to process %d: %w", p.pid, err)
		}
	}
	return nil
}

// inputPatience is how often a write that waits looks whether its client left.
const inputPatience = time.Second

// streamInput serves StreamInput, a client stream. Back-pressure is that of the
// connection: the next frame is read when the last one is written.
func (s *Server) streamInput(c *conn, req *http.Request) error {
	if ok, err := c.requireMethod(req, http.MethodPost); !ok {
		return err
	}
	codec, ok := envd.CodecOf(req.Header.Get("Content-Type"), true)
	if !ok {
		return c.answer(http.StatusUnsupportedMediaType, "", nil)
	}
	err := s.readInput(c, req, codec)
	if err == io.EOF {
		c.out.begin(c, codec)
		c.out.message(&envd.Empty{})
		return c.out.finish(nil)
	}
	if ferr := c.failStream(codec, err); ferr != nil {
		return ferr
	}
	return nil
}

// readInput gives io.EOF after the stream's clean end.
func (s *Server) readInput(c *conn, req *http.Request, codec envd.Codec) error {
	var p *process
	fr := envd.FrameReader{R: req.Body}
	for {
		flags, payload, err := fr.Next()
		if err == io.EOF || (err == nil && flags&envd.FlagEnd != 0) {
			return io.EOF
		}
		var m envd.StreamInputRequest
		if err == nil {
			err = envd.Decode(payload, codec, &m)
		}
		if err != nil {
			return api.Errorf(api.KindInvalid, "the input stream: %w", err)
		}
		switch {
		case m.Start != nil:
			if p, err = s.selected(req, m.Start.Process); err != nil {
				return err
			}
		case m.Data != nil && p == nil:
			return api.Errorf(api.KindInvalid, "the input stream does not begin with its process")
		case m.Data != nil:
			if err := p.feed(m.Data.Input, c); err != nil {
				return err
			}
		}
	}
}
