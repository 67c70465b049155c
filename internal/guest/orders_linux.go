package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/machine"
)

// stdioControl takes the control socket of a guest that was started with
// [birth.ArgStdio]. The socket moves to a descriptor of its own, which commands do
// not inherit, and standard input and output become nothing: a slip of the pen
// cannot become a packet.
func stdioControl() (*birth.Control, error) {
	fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	ctrl, err := birth.NewControl(os.NewFile(uintptr(fd), "control"))
	if err != nil {
		return nil, err
	}
	if err := discardStdio(); err != nil {
		ctrl.Close()
		return nil, err
	}
	return ctrl, nil
}

// discardStdio puts nothing in the place of the sockets among the standard
// descriptors. The sockets stay open elsewhere: gVisor shuts down a socket of its
// host's with the last descriptor of each import of it, and several of the standard
// ones are imports of the same socket, the control socket.
func discardStdio() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	defer unix.Close(null)
	for fd := range 3 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			continue // an error output that somebody reads
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
			return os.NewSyscallError("dup", err)
		}
		if err := unix.Dup3(null, fd, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	return nil
}

// Attend serves the streams that the host hands over, and follows its other orders,
// until the control socket ends. That is an error before the host said "go" or who
// the guest is. Commands are left as they are.
func (s *Server) Attend(ctx context.Context, ctrl *birth.Control) error {
	return s.work(ctx, func(ctx context.Context) error {
		defer func() {
			s.quiesce()
			s.processes.Release()
		}()
		for claimed := false; ; {
			o, err := ctrl.AwaitOrder(ctx)
			if err == io.EOF && claimed {
				return nil
			}
			if err != nil {
				return fmt.Errorf("the host's next order: %w", err)
			}
			switch {
			case o.Stream != nil:
				s.takeStream(ctx, o.Stream)
			case o.Go && claimed:
				return errors.New("the host said go a second time")
			case o.Go:
				s.claim(o.Claim)
				claimed = true
			case o.Quiet:
				s.quiesce()
				err = ctrl.Answer(ctx, birth.Report{Quiet: true})
			case o.On:
				s.resume()
			case o.Self != nil:
				s.quiesce()
				if o.Self.Sandbox != s.cfg.Sandbox {
					s.processes.Release() // another's clients
				}
				r := birth.Report{Ready: true}
				if err := s.become(o.Self); err != nil {
					r = report(err)
				} else {
					if !claimed {
						s.claim(nil)
						claimed = true
					}
					s.resume()
				}
				r.Nonce = o.Self.Nonce
				err = ctrl.Answer(ctx, r)
			}
			if err != nil {
				return fmt.Errorf("answer the host: %w", err)
			}
		}
	})
}

// takeStream serves a connected socket, or closes it where the guest is quiet or
// has too many.
func (s *Server) takeStream(ctx context.Context, f *os.File) {
	nc, err := net.FileConn(f)
	f.Close()
	if err == nil {
		s.rpc.Take(ctx, nc)
	}
}

// quiesce ends every connection, waits until none is open, and lets no other in. The
// lifetimes of commands stand still until resume: what passes in between, above all
// the time that a saved state lay somewhere, is not theirs.
func (s *Server) quiesce() {
	s.rpc.Cut()
	s.processes.Pause()
	s.rpc.AwaitNone()
	// A connection that was ending may have started a command meanwhile.
	s.processes.Pause()
}

// resume serves again.
func (s *Server) resume() {
	s.processes.Resume()
	s.rpc.Resume()
}

// become makes the guest another one than it was when it was saved. No connection
// is open. Commands that are alive keep the environment that they were started with.
//
// Nothing else in here is bound to the old self: the guest's random numbers are the
// kernel's, which takes them from its host afresh each time.
func (s *Server) become(self *birth.Self) error {
	if s.cfg.OwnKernel {
		if err := unix.Sethostname([]byte(self.Hostname)); err != nil {
			return &stageError{"hostname", os.NewSyscallError("sethostname", err)}
		}
		if err := machine.Rename(s.cfg.Hostname, self); err != nil {
			return &stageError{"identity", err}
		}
	}
	s.cfg.Sandbox, s.cfg.Hostname, s.cfg.Env = self.Sandbox, self.Hostname, self.Env
	s.ids.SetEnv(self.Env)
	return nil
}
