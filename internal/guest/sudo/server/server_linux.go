package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/identity"
	"hortus.dev/internal/guest/process"
	"hortus.dev/internal/guest/sudo"
)

const (
	// maxSudo is the maximum number of commands that run through sudo.
	maxSudo = 64
	// sudoTimeout is how long a request may take to arrive.
	sudoTimeout = 10 * time.Second
)

// Server starts commands for the program sudo.
type Server struct {
	ids       *identity.Set
	processes *process.Manager
	l         *net.UnixListener
}

// Listen opens the socket of the program sudo. The abstract socket names must be the
// sandbox's own.
func Listen(ids *identity.Set, processes *process.Manager) (*Server, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: sudo.Socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &Server{ids: ids, processes: processes, l: l}, nil
}

// Serve serves sudo until ctx ends, and then kills the commands.
func (s *Server) Serve(ctx context.Context) {
	l := s.l
	var sessions sync.WaitGroup
	defer sessions.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	slots := make(chan struct{}, maxSudo)
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(100 * time.Millisecond) // most likely out of descriptors; retry
			continue
		}
		select {
		case slots <- struct{}{}:
			sessions.Go(func() {
				defer func() { <-slots }()
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				s.serve(c)
			})
		default:
			answer(c, sudo.Answer{Error: "too many commands run through sudo at the same time"})
			c.Close()
		}
	}
}

func answer(c *net.UnixConn, a sudo.Answer) {
	b, err := sudo.Encode(a)
	if err != nil {
		return
	}
	c.SetWriteDeadline(time.Now().Add(sudoTimeout))
	c.Write(b)
}

// serve runs one command for a client.
func (s *Server) serve(c *net.UnixConn) {
	code, err := s.run(c)
	a := sudo.Answer{Code: code}
	if err != nil {
		a.Error = api.AsError(err).Error()
	}
	answer(c, a)
}

func (s *Server) run(c *net.UnixConn) (int, error) {
	req, fds, err := readRequest(c)
	defer func() { closeAll(fds) }()
	if err == nil {
		err = s.allow(c)
	}
	if err != nil {
		return 0, err
	}
	id, cfg, err := s.command(req)
	if err != nil {
		return 0, err
	}
	files := make([]uintptr, len(fds))
	for i, fd := range fds {
		files[i] = uintptr(fd)
	}
	p, err := s.processes.StartAttached(id, cfg, files, req.Terminal)
	if err != nil {
		return 0, err
	}
	closeAll(fds) // the command has its own copies
	fds = nil
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		s.forwardSignals(c, p)
	}()
	code := p.Await()
	c.SetReadDeadline(time.Unix(1, 0))
	<-forwarded
	return code, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// allow returns an error unless the client is a user of the sandbox.
func (s *Server) allow(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var perr error
	if err := raw.Control(func(fd uintptr) { peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if perr != nil {
		return api.Errorf(api.KindInternal, "read the credentials of the client: %w", perr)
	}
	if !s.ids.HasUID(peer.Uid) {
		return api.Errorf(api.KindDenied, "user %d may not use sudo", peer.Uid)
	}
	return nil
}

// readRequest reads a request and its three descriptors. The caller closes them, also after
// an error.
func readRequest(c *net.UnixConn) (*sudo.Request, []int, error) {
	c.SetReadDeadline(time.Now().Add(sudoTimeout))
	defer c.SetReadDeadline(time.Time{})
	r := &rightsReader{c: c}
	req := new(sudo.Request)
	err := sudo.Decode(r, req)
	if err == nil && len(r.fds) != 3 {
		err = api.Errorf(api.KindInvalid, "the request has %d file descriptors instead of 3", len(r.fds))
	}
	return req, r.fds, err
}

// rightsReader reads a connection and collects the descriptors that it receives.
type rightsReader struct {
	c   *net.UnixConn
	fds []int
}

func (r *rightsReader) Read(p []byte) (int, error) {
	// The kernel closes descriptors that do not fit.
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := r.c.ReadMsgUnix(p, oob)
	if oobn > 0 {
		msgs, perr := unix.ParseSocketControlMessage(oob[:oobn])
		if perr != nil {
			return n, perr
		}
		for i := range msgs {
			fds, perr := unix.ParseUnixRights(&msgs[i])
			if perr != nil {
				continue
			}
			for _, fd := range fds {
				unix.CloseOnExec(fd)
			}
			r.fds = append(r.fds, fds...)
		}
		if len(r.fds) > 3 {
			return n, api.Errorf(api.KindInvalid, "the request has more than 3 file descriptors")
		}
	}
	if err == nil && n == 0 && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// command returns the user that a request runs as, and its command.
func (s *Server) command(req *sudo.Request) (*identity.Identity, *envd.ProcessConfig, error) {
	name := req.User
	name = cmp.Or(name, "root")
	id := s.ids.Get(name)
	if id == nil {
		return nil, nil, api.Errorf(api.KindNotFound, "user %q not found", name)
	}
	if len(req.Args) == 0 {
		return nil, nil, api.Errorf(api.KindInvalid, "the request has no command")
	}
	dir := req.Dir
	dir = cmp.Or(dir, id.Home)
	return id, &envd.ProcessConfig{Cmd: req.Args[0], Args: req.Args[1:], Envs: req.Env, Cwd: &dir}, nil
}

// forwardSignals sends the command the requested signals, and kills it when the client has
// left.
func (s *Server) forwardSignals(c *net.UnixConn, p *process.Process) {
	var b [1]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			_ = s.processes.Signal(p, unix.SIGKILL) // fails if it has ended
			return
		}
		if sig := unix.Signal(b[0]); sig >= 1 && sig <= 31 {
			_ = s.processes.Signal(p, sig)
		}
	}
}
