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

// stdioControl returns the control socket of a guest that was started with
// [birth.ArgStdio]. It moves the socket to a descriptor that commands do not inherit, and
// discards standard input and output, so that nothing printed there becomes a packet.
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

// discardStdio replaces the standard descriptors that are sockets by /dev/null. It keeps
// copies of the sockets open: gVisor shuts down a socket of its host when the last
// descriptor of one import is closed, and several standard descriptors import the control
// socket.
func discardStdio() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	defer unix.Close(null)
	for fd := range 3 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			continue // standard error, which the host may read
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

// Attend serves the streams that the host sends and follows its other orders until the
// control socket ends. An end before "go" or a Self is an error. Commands continue.
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
				return fmt.Errorf("receive order: %w", err)
			}
			switch {
			case o.Stream != nil:
				s.takeStream(ctx, o.Stream)
			case o.Go && claimed:
				return errors.New("the host sent the start order twice")
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
					s.processes.Release() // reserved for clients of another sandbox
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
				return fmt.Errorf("answer host: %w", err)
			}
		}
	})
}

// takeStream serves a connected socket, or closes it if the guest is quiet or has too many
// connections.
func (s *Server) takeStream(ctx context.Context, f *os.File) {
	nc, err := net.FileConn(f)
	f.Close()
	if err == nil {
		s.rpc.Take(ctx, nc)
	}
}

// quiesce ends every connection, waits until none is open, and admits no new one until
// resume. It pauses the lifetimes of commands: the time until resume does not count, for
// example while the guest's state is saved on a disk.
func (s *Server) quiesce() {
	s.lifetime.Pause()
	s.rpc.Cut()
	s.processes.Pause()
	s.rpc.AwaitNone()
	// A connection may have started a command while it was ending.
	s.processes.Pause()
}

// resume serves again.
func (s *Server) resume() {
	s.lifetime.Resume()
	s.processes.Resume()
	s.rpc.Resume()
}

// become gives a restored guest its new identity. No connection may be open. Running
// commands keep their environment.
//
// Nothing else depends on the old identity: random numbers come from the kernel, which gets
// fresh ones from its host.
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
	s.ids.SetDefault(self.Default)
	if s.capture != nil {
		s.capture.SetHostname(self.Hostname)
	}
	return nil
}
