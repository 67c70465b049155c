package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/copied"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/sandbox"
)

const (
	// startTimeout is the maximum duration of a start. It includes the load of an image.
	startTimeout = 5 * time.Minute
	// createTimeout is the maximum duration of the creation of a container, of which most is a removed image.
	createTimeout = 2 * time.Minute
	// stageTimeout is the maximum duration from the start of a container until its guest serves.
	stageTimeout = 60 * time.Second
)

const (
	birthDir    = "birth" // in the run directory; the container sees it
	guestSocket = "s"     // in the run directory; only the host sees it
)

// Start implements sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	m, err := b.boot(ctx, spec, nil)
	if err != nil {
		return nil, err
	}
	if err := m.Claim(ctx, nil); err != nil {
		if _, kerr := m.end(context.WithoutCancel(ctx), false); kerr != nil {
			b.log.Error("cannot clean up a failed start", "sandbox", spec.ID, "error", kerr)
		}
		return nil, err
	}
	return m.machine, nil
}

// Prepare implements sandbox.Backend.
func (b *Backend) Prepare(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	if spec.Workspace != nil {
		return nil, api.Errorf(api.KindUnsupported, "sandbox %s: no guest is booted ahead of requests with a workspace", spec.ID)
	}
	spec.Env = nil
	m, err := b.boot(ctx, spec, nil)
	if err != nil {
		return nil, err // without a type
	}
	return m, nil
}

// boot starts a guest until it waits for "go". saved has the files of a save; nil for none. After an error nothing is left.
func (b *Backend) boot(ctx context.Context, spec sandbox.Spec, saved *os.File) (_ *waiting, err error) {
	if !spec.ID.Valid() {
		return nil, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(spec.ID))
	}
	if err := b.Validate(ctx, spec); err != nil {
		return nil, err
	}
	r, err := b.lease(spec.Layers)
	if err != nil {
		return nil, err
	}
	files, err := b.attach(ctx, spec.Workspace)
	if err != nil {
		r.Release()
		return nil, err
	}
	return b.bootRoot(ctx, spec, r, files, saved)
}

// bootRoot is boot with leased layers and files, which it releases after an error.
func (b *Backend) bootRoot(ctx context.Context, spec sandbox.Spec, r *root, files *copied.Files, saved *os.File) (_ *waiting, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	undo := []func(){r.Release, files.Release}
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
			if cerr := ctx.Err(); cerr != nil {
				err = api.Errorf(api.KindOf(cerr), "timeout: sandbox %s did not start: %w", spec.ID, cerr)
			}
		}
	}()
	cfg, err := json.Marshal(guestConfig(spec, r))
	if err == nil && len(cfg) > birth.MaxPacket {
		err = fmt.Errorf("its configuration has %d bytes, the maximum is %d", len(cfg), birth.MaxPacket)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "sandbox %s: %w", spec.ID, err).WithHint("Use a smaller environment.")
	}
	if err := b.installGuest(); err != nil {
		return nil, api.Errorf(api.KindOf(err), "sandbox %s: install the guest: %w", spec.ID, err)
	}
	if err := b.ensureImage(ctx, r, false); err != nil {
		return nil, err
	}
	dir := b.rundir(spec.ID)
	if err := os.Mkdir(dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil, api.Errorf(api.KindExists, "sandbox %s already exists", spec.ID)
	} else if err != nil {
		return nil, api.Errorf(api.KindInternal, "run directory: %w", err)
	}
	undo = append(undo, func() { os.RemoveAll(dir) })
	var s *sockets
	if !b.at.far {
		if s, err = listen(dir); err != nil {
			return nil, api.Errorf(api.KindInternal, "sandbox %s: its sockets: %w", spec.ID, err)
		}
		defer s.close()
	}
	seen := b.limits(spec.Limits, b.unified())
	id, err := b.create(ctx, spec, r, seen)
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() {
		if err := b.remove(context.WithoutCancel(ctx), id); err != nil {
			b.log.Error("cannot remove the container of a failed start", "sandbox", spec.ID, "error", err)
		}
	})
	if err := b.fill(ctx, id, files); err != nil {
		return nil, err
	}
	if _, err := b.engine.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return nil, engineError(fmt.Sprintf("start the container of sandbox %s", spec.ID), err).WithHint("Look at the engine's log.")
	}
	pid, err := b.running(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := b.hold(files, spec.ID, pid); err != nil {
		return nil, err
	}
	if b.at.far {
		return b.bootFar(ctx, spec, id, r, files, cfg)
	}
	if err := groupOf(pid).limitSockets(spec.Limits.MemoryBytes); err != nil && os.Geteuid() == 0 { // of other users the report says it
		b.log.Warn("the limit of memory does not count the buffers of sockets", "sandbox", spec.ID, "error", err)
	}
	within := stageTimeout
	if saved != nil {
		within = startTimeout
	}
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := s.birth.meet(short, pid)
	if err == nil {
		err = b.instruct(short, conn, s.guest, saved, spec, cfg, seen)
		if err != nil {
			conn.Close()
		}
	}
	if err != nil {
		return nil, b.startError(ctx, spec.ID, id, err)
	}
	m := newMachine(b, spec, id, r, files)
	m.pid = pid
	m.run()
	return &waiting{machine: m, conn: conn, r: r}, nil
}

// bootFar is what follows the start of a container at another host.
func (b *Backend) bootFar(ctx context.Context, spec sandbox.Spec, id string, r *root, files *copied.Files, cfg []byte) (*waiting, error) {
	m := newMachine(b, spec, id, r, files)
	short, cancel := context.WithTimeout(ctx, stageTimeout)
	defer cancel()
	err := m.wire.connect(short)
	if err == nil {
		err = m.wire.instruct(short, spec, cfg)
	}
	if err != nil {
		m.wire.end()
		return nil, b.startError(ctx, spec.ID, id, err)
	}
	m.run()
	return &waiting{machine: m, conn: orders{m.wire}, r: r}, nil
}

// create makes the container. An image that somebody removed from the engine is loaded again. The end of
// ctx does not interrupt the call: the engine would continue, and make a container of which nobody knows.
func (b *Backend) create(ctx context.Context, spec sandbox.Spec, r *root, seen *initns.Limits) (id string, err error) {
	o, err := b.options(spec, r, seen)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	got, err := b.engine.ContainerCreate(ctx, o)
	if cerrdefs.IsNotFound(err) {
		if err := b.ensureImage(ctx, r, true); err != nil {
			return "", err
		}
		got, err = b.engine.ContainerCreate(ctx, o)
	}
	if err != nil {
		return "", engineError(fmt.Sprintf("create the container of sandbox %s", spec.ID), err)
	}
	return got.ID, nil
}

// running returns the pid of a container's first process.
func (b *Backend) running(ctx context.Context, id string) (int, error) {
	got, err := b.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return 0, engineError("inspect a container", err)
	}
	if s := got.Container.State; s != nil && s.Pid > 1 {
		return s.Pid, nil
	}
	return 0, nil // it has ended, which the control socket shows
}

// sockets are those of a sandbox that starts: the one on which the guest will serve, and the one where
// the stage asks for it.
type sockets struct {
	guest *os.File
	birth *birthListener
}

func (s *sockets) close() {
	s.guest.Close()
	s.birth.Close()
}

// listen makes the sockets in a run directory.
func listen(dir string) (_ *sockets, err error) {
	below := filepath.Join(dir, birthDir)
	if err := os.Mkdir(below, 0o755); err != nil {
		return nil, err
	}
	guest, err := link.Listen("unix", dir, guestSocket)
	if err != nil {
		return nil, err
	}
	defer guest.Close()
	guest.SetUnlinkOnClose(false)
	s := &sockets{}
	if s.guest, err = guest.File(); err != nil {
		return nil, err
	}
	if s.birth, err = birthSocket(below); err != nil {
		s.guest.Close()
		return nil, err
	}
	return s, nil
}

// birthListener is the socket on which the first process of a container reports.
type birthListener struct {
	*net.UnixListener
	path string
}

// birthSocket makes it in a directory that the container sees.
func birthSocket(dir string) (*birthListener, error) {
	c := &birthListener{path: filepath.Join(dir, path.Base(initns.EngineSocket))}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	if c.UnixListener, err = link.Listen("unixpacket", dir, path.Base(c.path)); err != nil {
		return nil, err
	}
	if err := os.Chmod(c.path, 0o666); err != nil { // in a user namespace of the engine, root is another user
		c.Close()
		return nil, err
	}
	return c, nil
}

// meet waits until the process connects, and removes the name of the socket. It refuses other processes.
func (s *birthListener) meet(ctx context.Context, pid int) (*net.UnixConn, error) {
	stop := context.AfterFunc(ctx, func() { s.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		conn, err := s.AcceptUnix()
		if err != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		if peer, err := link.Peer(conn); err == nil && peer == pid {
			return conn, os.Remove(s.path)
		}
		conn.Close()
	}
}

// instruct sends the stage everything that it needs to become the guest, and waits until the guest is ready.
func (b *Backend) instruct(ctx context.Context, conn *net.UnixConn, socket, saved *os.File, spec sandbox.Spec, cfg []byte, seen *initns.Limits) error {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := &child.Child{Conn: conn}
	is := b.stageSpec(spec)
	is.Limits = seen
	fds := []int{int(socket.Fd())}
	if saved != nil {
		is.Saved = len(fds)
		fds = append(fds, int(saved.Fd()))
	}
	if err := c.Send(is, fds); err != nil {
		return err
	}
	if err := c.Send(cfg, nil); err != nil && !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		return err // a stage that has failed has closed the socket, and has sent the reason
	}
	disk, err := c.AwaitBuilt()
	if err != nil {
		return err
	}
	unix.Close(disk)
	return c.AwaitReady()
}

// startError returns why a guest did not start.
func (b *Backend) startError(ctx context.Context, id api.SandboxID, container string, err error) error {
	var step *child.StepError
	if errors.As(err, &step) && step.Step == initns.SavedStep {
		return restoreError(id, step)
	}
	if errors.As(err, &step) {
		return api.Errorf(api.KindUnisolated, "sandbox %s: cannot prepare the container: %s: %s", id, step.Step, step.Text)
	}
	if ctx.Err() == nil {
		got, ierr := b.engine.ContainerInspect(ctx, container, client.ContainerInspectOptions{})
		if ierr == nil && got.Container.State != nil && !got.Container.State.Running {
			return api.Errorf(api.KindUnisolated, "sandbox %s: the first process of its container exited with status %d: %.300s", id, got.Container.State.ExitCode, got.Container.State.Error).
				WithHint("The guest must be a static executable: build hortus with CGO_ENABLED=0.")
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return api.Errorf(api.KindUnisolated, "sandbox %s: the container does not reach this daemon's socket", id).
				WithHint("The docker backend needs an engine on this machine that mounts its directories; a virtual machine such as Docker Desktop's cannot.")
		}
	}
	return api.Errorf(api.KindInternal, "sandbox %s: the guest did not start: %w", id, err)
}

// waiting is a guest that has reported and waits for its claim.
type waiting struct {
	*machine
	r *root

	claim sync.Mutex
	conn  control // nil once claimed
}

// control is how a guest that waits gets its claim.
type control interface {
	io.WriteCloser
	SetDeadline(time.Time) error
}

// orders is the control of a guest at another host.
type orders struct{ *wire }

func (o orders) Write(p []byte) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	m, err := o.get(ctx)
	if err == nil {
		err = m.Send(ctx, p)
	}
	return len(p), err
}

// Close does nothing: the streams are on the same connection.
func (orders) Close() error { return nil }

// SetDeadline does nothing: a write is short, and has a deadline of its own.
func (orders) SetDeadline(time.Time) error { return nil }

// Claim implements sandbox.Machine.
func (w *waiting) Claim(ctx context.Context, env map[string]string) error {
	w.claim.Lock()
	defer w.claim.Unlock()
	if w.conn == nil {
		return api.Errorf(api.KindConflict, "sandbox %s is already claimed", w.id)
	}
	if err := ctx.Err(); err != nil {
		return api.Errorf(api.KindOf(err), "claim sandbox %s: %w", w.id, err)
	}
	packet := []byte(birth.GoPacket)
	if len(env) > 0 {
		var err error
		if packet, err = (birth.Claim{Env: w.r.Env(env)}).Packet(); err != nil {
			return api.Errorf(api.KindInvalid, "sandbox %s: its environment: %w", w.id, err)
		}
	}
	select {
	case <-w.done:
		return api.Errorf(api.KindUnavailable, "sandbox %s ended before it was claimed: %s", w.id, w.Cause())
	default:
	}
	conn := w.conn
	w.conn = nil
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(packet); err != nil {
		kind := api.KindUnavailable
		if cerr := ctx.Err(); cerr != nil {
			kind, err = api.KindOf(cerr), cerr
		}
		return api.Errorf(kind, "claim sandbox %s: %w", w.id, err)
	}
	return nil
}

// Kill implements sandbox.Machine.
func (w *waiting) Kill(ctx context.Context) (api.Proof, error) { return w.end(ctx, true) }

// end is Kill; store is false if no command can have changed anything.
func (w *waiting) end(ctx context.Context, store bool) (api.Proof, error) {
	w.claim.Lock()
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
	w.claim.Unlock()
	return w.machine.end(ctx, store)
}
