package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/credential"
	"hortus.dev/internal/guest/machine"
	"hortus.dev/internal/guest/signals"
	"hortus.dev/internal/guest/spawn"
)

// Main runs a guest process and returns its exit code. It takes its descriptors and its
// configuration from the process that started it, and serves. It returns if it cannot
// start, or when the host closes the control socket or serving fails.
func Main() int {
	if alone := apart(os.Args[1:]); alone != nil {
		if err := alone(); err != nil {
			fmt.Fprintln(os.Stderr, "hortus-guest:", err)
			return 1
		}
		return 0
	}
	stdio := len(os.Args) > 1 && os.Args[1] == birth.ArgStdio
	var ctrl *birth.Control
	var err error
	if stdio {
		ctrl, err = stdioControl()
	} else {
		ctrl, err = birth.NewControl(os.NewFile(birth.ControlFD, "control"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hortus-guest:", err)
		fmt.Fprintln(os.Stderr, "hortus-guest: this program is started by hortus and cannot be started by hand")
		return 2
	}
	if err := run(ctrl, stdio); err != nil {
		fmt.Fprintln(os.Stderr, "hortus-guest:", err)
		return 1
	}
	return 0
}

// apart returns what the arguments of a guest without a control socket ask for; nil if there is one.
func apart(args []string) func() error {
	switch {
	case len(args) == 2 && args[0] == birth.ArgRemote:
		return func() error { return remote(args[1]) }
	case len(args) >= 2 && args[0] == birth.ArgCopy:
		return func() error { return copyExecutable(args[1], args[2:]) }
	case len(args) == 1 && args[0] == birth.ArgDial:
		return dial
	}
	return nil
}

// stageError is an error of a step of the start.
type stageError struct {
	stage string
	err   error
}

func (e *stageError) Error() string { return e.stage + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

func run(ctrl *birth.Control, stdio bool) error {
	defer ctrl.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg, err := ctrl.AwaitConfig(ctx)
	if err != nil {
		return fmt.Errorf("receive configuration: %w", err)
	}
	var l net.Listener
	if !stdio {
		l, err = inheritListener()
	}
	var s *Server
	if err == nil {
		s, err = prepareProcess(cfg)
	}
	if err != nil {
		return errors.Join(err, ctrl.Answer(ctx, report(err)))
	}
	if stdio {
		if err := ctrl.Answer(ctx, birth.Report{Ready: true}); err != nil {
			return err
		}
		return s.Attend(ctx, ctrl)
	}
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx, l) }()
	err = ctrl.Answer(ctx, birth.Report{Ready: true})
	var claim *birth.Claim
	if err == nil {
		claim, err = ctrl.AwaitGo(ctx)
	}
	if err != nil {
		// The process ends, and as init it ends everything else.
		return fmt.Errorf("wait for the start order: %w", err)
	}
	s.claim(claim)
	ctrl.Close()
	return <-served
}

// report converts an error to a report.
func report(err error) birth.Report {
	r := birth.Report{Error: err.Error()}
	var stage *stageError
	if errors.As(err, &stage) {
		r.Stage, r.Error = stage.stage, stage.err.Error()
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	return r
}

func inheritListener() (net.Listener, error) {
	f := os.NewFile(birth.ListenFD, "listener")
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		return nil, &stageError{"listener", err}
	}
	if ul, ok := l.(*net.UnixListener); ok {
		ul.SetUnlinkOnClose(false) // the host owns the path
	}
	return l, nil
}

// prepareProcess prepares the process, before it serves.
func prepareProcess(cfg birth.Config) (*Server, error) {
	// Save memory at the cost of CPU time: a guest is mostly idle, and its memory counts
	// once per sandbox.
	debug.SetGCPercent(50)
	caught, err := signals.Survive(cfg.PID1)
	if err != nil {
		return nil, &stageError{"signals", err}
	}
	if !cfg.Switch {
		if err := signals.IgnoreLibrary(); err != nil {
			return nil, &stageError{"signals", err}
		}
	}
	go func() {
		for range caught {
		}
	}()
	unix.Umask(0o022)
	if cfg.OwnKernel {
		if err := machine.Prepare(&cfg); err != nil {
			return nil, &stageError{"prepare", err}
		}
	}
	if cfg.PID1 {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return nil, &stageError{"dumpable", err}
		}
	} else {
		// A guest of trusted code stays readable to its own user: the host finds it by a
		// variable in its environment, above all after a crash.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, &stageError{"subreaper", err}
		}
	}
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if err := credential.ClearAmbient(); err != nil {
		return nil, &stageError{"capabilities", err}
	}
	if err := spawn.SetLimits(&cfg); err != nil {
		return nil, &stageError{"limits", err}
	}
	return s, nil
}
