package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/guest/sudo"
)

const (
	// maxSudo bounds how many commands run through sudo at a time.
	maxSudo = 64
	// sudoTimeout bounds how long a request may take to arrive.
	sudoTimeout = 10 * time.Second
)

// listenSudo opens the socket of the program sudo. There is none where there is no root
// to become, or where the abstract names of sockets are not the sandbox's own.
func (s *Server) listenSudo() (*net.UnixListener, error) {
	if !s.cfg.PID1 && !s.cfg.OwnKernel || s.ids["root"] == nil || len(s.ids) < 2 {
		return nil, nil
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: sudo.Socket, Net: "unix"})
}

// serveSudo answers sudo until ctx ends, and then ends the commands.
func (s *Server) serveSudo(ctx context.Context, l *net.UnixListener) {
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
			time.Sleep(100 * time.Millisecond) // out of descriptors
			continue
		}
		select {
		case slots <- struct{}{}:
			sessions.Go(func() {
				defer func() { <-slots }()
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				s.sudo(c)
			})
		default:
			sudoAnswer(c, sudo.Answer{Error: "too many commands run through sudo"})
			c.Close()
		}
	}
}

func sudoAnswer(c *net.UnixConn, a sudo.Answer) {
	b, err := sudo.Encode(a)
	if err != nil {
		return
	}
	c.SetWriteDeadline(time.Now().Add(sudoTimeout))
	c.Write(b)
}

// sudo runs one command for who is at the other end.
func (s *Server) sudo(c *net.UnixConn) {
	code, err := s.sudoCommand(c)
	a := sudo.Answer{Code: code}
	if err != nil {
		a.Error = api.AsError(err).Error()
	}
	sudoAnswer(c, a)
}

func (s *Server) sudoCommand(c *net.UnixConn) (int, error) {
	req, fds, err := readSudo(c)
	defer func() { closeAll(fds) }()
	if err == nil {
		err = s.maySudo(c)
	}
	if err != nil {
		return 0, err
	}
	cmd, err := s.prepareSudo(req)
	if err != nil {
		return 0, err
	}
	for _, fd := range fds {
		cmd.files = append(cmd.files, uintptr(fd))
	}
	p := &process{config: &envd.ProcessConfig{Cmd: cmd.argv[0]}, exitFD: -1, ptyFD: -1, told: true, isPTY: cmd.pty, ended: make(chan struct{})}
	p.space.L = &p.mu
	if err := s.reaper.fork(p, func() (int, error) { return s.spawner.spawn(cmd) }); err != nil {
		return 0, s.explain(cmd, err)
	}
	if s.spawner.pidFDs {
		unix.Close(cmd.pidFD)
	}
	closeAll(fds) // the command alone has them now
	fds = nil
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		s.forwardSignals(c, p)
	}()
	<-p.ended
	c.SetReadDeadline(time.Unix(1, 0))
	<-forwarded
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.Signaled() {
		return 128 + int(p.status.Signal()), nil
	}
	return p.status.ExitStatus(), nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// maySudo lets the users of the sandbox ask, and nobody else that there is in it.
func (s *Server) maySudo(c *net.UnixConn) error {
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
		return api.Errorf(api.KindInternal, "who asks is not known: %w", perr)
	}
	for _, id := range s.cfg.Identities {
		if id.UID == peer.Uid {
			return nil
		}
	}
	return api.Errorf(api.KindDenied, "user %d may not use sudo", peer.Uid)
}

// readSudo reads a request and the three descriptors with it, which must be closed, on
// errors too.
func readSudo(c *net.UnixConn) (*sudo.Request, []int, error) {
	c.SetReadDeadline(time.Now().Add(sudoTimeout))
	defer c.SetReadDeadline(time.Time{})
	r := &rightsReader{c: c}
	req := new(sudo.Request)
	err := sudo.Decode(r, req)
	if err == nil && len(r.fds) != 3 {
		err = api.Errorf(api.KindInvalid, "%d descriptors came with the request instead of 3", len(r.fds))
	}
	return req, r.fds, err
}

// rightsReader reads a connection and collects the descriptors that arrive.
type rightsReader struct {
	c   *net.UnixConn
	fds []int
}

func (r *rightsReader) Read(p []byte) (int, error) {
	// Room for three: the kernel closes what does not fit.
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
			return n, api.Errorf(api.KindInvalid, "more than 3 descriptors came with the request")
		}
	}
	if err == nil && n == 0 && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// prepareSudo turns a request into a command.
func (s *Server) prepareSudo(req *sudo.Request) (*command, error) {
	name := req.User
	if name == "" {
		name = "root"
	}
	id := s.ids[name]
	if id == nil {
		return nil, api.Errorf(api.KindNotFound, "there is no user %q to become", name)
	}
	if len(req.Args) == 0 {
		return nil, api.Errorf(api.KindInvalid, "the request names no command")
	}
	dir := req.Dir
	if dir == "" {
		dir = id.Home
	}
	cmd, err := s.prepare(id, &envd.ProcessConfig{Cmd: req.Args[0], Args: req.Args[1:], Envs: req.Env, Cwd: &dir})
	if err != nil {
		return nil, err
	}
	cmd.pty = req.Terminal
	return cmd, nil
}

// forwardSignals sends the command the signals that are asked for, and kills it when the
// one who asked for it is gone.
func (s *Server) forwardSignals(c *net.UnixConn, p *process) {
	var b [1]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			_ = s.reaper.signal(p, unix.SIGKILL) // it may have ended
			return
		}
		if sig := unix.Signal(b[0]); sig >= 1 && sig <= 31 {
			_ = s.reaper.signal(p, sig)
		}
	}
}
