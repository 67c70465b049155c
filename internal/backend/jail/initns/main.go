package initns

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/forker"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/guest/birth"
)

// Main runs the stage. It returns an exit code if a step fails; otherwise it becomes the guest
// by executing it, and never returns.
func Main() int { return Become(nil) }

// Become is Main for a binary that is also the guest. If possible it becomes the guest by
// calling it instead of executing the binary a second time, which saves a third of a sandbox's
// start. guest returns the process's exit code.
//
// With the argument [forker.Mode] the program is a forker, with [Engine] the stage in a container of an
// engine, with [EngineStream] that at another host; with [EngineSave] it saves the files of one.
func Become(guest func() int) int {
	if len(os.Args) > 1 && os.Args[1] == forker.Mode {
		return forker.Serve(OwnClocks)
	}
	// Everything below changes the calling thread. The guest starts with its
	// capabilities, ids and filter: execve keeps this thread and ends the others.
	runtime.LockOSThread()
	var stay bool
	var keep *keeper.Config
	var far *relay
	var err error
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case Engine:
		err = runEngine()
		stay = err == nil
	case EngineStream:
		far, err = runEngineStream()
		stay = err == nil
	case EngineSave:
		err = runEngineSave()
	default:
		stay, keep, err = run(guest != nil)
	}
	if keep != nil {
		runtime.UnlockOSThread()
		return keeper.Run(*keep)
	}
	if stay {
		// All threads have the same privileges now.
		runtime.UnlockOSThread()
		runtime.GOMAXPROCS(runtime.NumCPU())
		return guest()
	}
	if err == nil {
		return 0
	}
	rep := birth.Report{Stage: "init", Error: err.Error()}
	var s *step
	if errors.As(err, &s) {
		rep.Stage, rep.Error, rep.Errno = s.name, s.err.Error(), s.errno()
	}
	if b, err := json.Marshal(rep); err == nil {
		unix.Sendmsg(birth.ControlFD-1, b, nil, nil, unix.MSG_NOSIGNAL)
	}
	far.last()
	return 1
}

// The stage itself has the control socket as its first descriptor after the
// standard ones.
const controlFD = birth.ControlFD - 1

// run does the stage's work. stay says that the process continues as the guest, keep that it
// continues as a keeper. Without them and without an error the process ends.
func run(mayStay bool) (stay bool, keep *keeper.Config, err error) {
	spec, fds, err := receive()
	if err != nil {
		return false, nil, err
	}
	fd := func(i int) int {
		if i < 0 || i >= len(fds) {
			return -1
		}
		return fds[i]
	}
	unix.Umask(0)
	// The socket comes first: it needs this network namespace and the host's run
	// directory, which cannot be reached after the root was changed.
	listen, err := bind(fd(spec.RunDir), SocketName)
	if err != nil {
		return false, nil, err
	}
	requests := -1
	if spec.Keeper != nil {
		if requests, err = bind(fd(spec.RunDir), keeper.SocketName); err != nil {
			return false, nil, err
		}
	}
	if err := spec.Quotas.set(); err != nil {
		return false, nil, err
	}
	disk, err := buildRoot(spec, fd)
	if err != nil {
		return false, nil, err
	}
	if err := at("set the host name", unix.Sethostname([]byte(spec.Hostname))); err != nil {
		return false, nil, err
	}
	if err := setNetwork(spec); err != nil {
		return false, nil, err
	}
	if err := setLimits(spec); err != nil {
		return false, nil, err
	}
	if err := nullStdio(); err != nil {
		return false, nil, err
	}
	if spec.Clocks {
		if err := at("make a time namespace", OwnClocks()); err != nil {
			return false, nil, err
		}
	}
	if err := spec.Limits.useProcessors(); err != nil {
		return false, nil, err
	}
	guest := fd(spec.Guest)
	if guest < 0 && !spec.Probe && spec.Keeper == nil {
		return false, nil, at("become the guest", unix.EBADF)
	}
	if err := send([]byte(Built), disk); err != nil {
		return false, nil, err
	}
	if spec.Probe {
		return false, nil, nil
	}
	if spec.Keeper != nil {
		unix.CloseOnExec(controlFD)
		unix.Umask(0o022)
		// Most importantly the host's run directory, from which every path of the host
		// could be reached. The keeper closes the files of an image.
		keep := []int{controlFD, listen, requests}
		for _, c := range spec.Keeper.Start {
			for _, i := range c.FDs {
				keep = append(keep, fd(i))
			}
		}
		if err := closeRest(keep...); err != nil {
			return false, nil, err
		}
		return false, &keeper.Config{Plan: *spec.Keeper, FD: fd, Control: controlFD, Listen: listen, Requests: requests,
			Confine: func() error { return confine(spec) }}, nil
	}
	if listen, guest, err = place(listen, guest); err != nil {
		return false, nil, err
	}
	unix.Umask(0o022)
	if mayStay && spec.Switch {
		if ok, err := dropAllThreads(spec, birth.ListenFD, birth.ControlFD); ok || err != nil {
			return ok, nil, err
		}
	}
	if err := drop(spec); err != nil {
		return false, nil, err
	}
	return false, nil, at("become the guest", execveat(guest, birth.Argv0))
}

// receive reads the Spec and its descriptors. If the socket was closed the daemon has ended,
// and so does this process.
func receive() (*Spec, []int, error) {
	spec := new(Spec)
	fds, err := receiveJSON(spec)
	if err != nil {
		return nil, nil, err
	}
	return spec, fds, nil
}

// receiveJSON reads one packet and its descriptors.
func receiveJSON(v any) ([]int, error) {
	buf := make([]byte, MaxSpec)
	oob := make([]byte, unix.CmsgSpace(4*MaxFDs))
	n, oobn, flags, _, err := unix.Recvmsg(controlFD, buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, at("read the spec", err)
	}
	if n == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		os.Exit(1)
	}
	var fds []int
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, at("read the spec", err)
	}
	for _, m := range msgs {
		got, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, at("read the spec", err)
		}
		fds = append(fds, got...)
	}
	return fds, at("read the spec", json.Unmarshal(buf[:n], v))
}

// send sends one packet with one descriptor.
func send(b []byte, fd int) error {
	return at("answer", unix.Sendmsg(controlFD, b, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL))
}
