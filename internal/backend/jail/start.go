package jail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/diagnosis"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/jail/rundir"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/sandbox"
)

// startTimeout is the maximum duration of a start, whatever the caller allows.
const startTimeout = 60 * time.Second

// Start boots a guest. See sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Machine, error) {
	w, err := b.boot(ctx, launch.Request{Spec: spec})
	if err != nil {
		return nil, err
	}
	if err := w.Claim(ctx, nil); err != nil {
		w.Kill(context.WithoutCancel(ctx))
		return nil, err
	}
	return w.machine, nil
}

// boot starts a guest until it waits for "go".
func (b *Backend) boot(ctx context.Context, r launch.Request) (*warmGuest, error) {
	s, err := b.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	return s.finish(ctx)
}

// guestStart is a guest whose start has begun.
type guestStart struct {
	m       *machine
	request launch.Request
	child   *child.Child
	// undo ends it. It is empty when the guest has become a machine.
	undo cleanup
}

// begin starts a guest's first process and sends it everything.
func (b *Backend) begin(ctx context.Context, r launch.Request) (_ *guestStart, err error) {
	id := r.Spec.ID
	if !r.Spec.ID.Valid() {
		return nil, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(r.Spec.ID))
	}
	if err := b.Validate(ctx, r.Spec); err != nil {
		return nil, err
	}
	if r.Trees, err = b.launcher.Resolve(r.Spec.Layers); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	m := newMachine(b, id, r.Spec.Limits)
	m.trees, m.digests = r.Trees, r.Spec.Layers
	s := &guestStart{m: m}
	defer func() {
		if err != nil {
			s.undo.run()
		}
	}()
	s.undo.add(func() { b.launcher.Release(m.trees) })
	if m.workdir, err = b.mounter.Attach(ctx, r.Spec.Workspace); err != nil {
		return nil, err
	}
	s.undo.add(m.workdir.Release)
	if b.cfg.Image != nil {
		m.image = b.cfg.Image()
	}
	if b.ids != nil {
		if m.ids, err = b.ids.Get(); err != nil {
			return nil, api.Errorf(api.KindExhausted, "lease a uid range: %w", err)
		}
		s.undo.add(func() { b.ids.Put(m.ids) })
	}
	if err := os.Mkdir(m.dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil, api.Errorf(api.KindExists, "sandbox %s already exists", id)
	} else if err != nil {
		return nil, api.Errorf(api.KindInternal, "run directory: %w", err)
	}
	s.undo.add(func() { b.removeDirs(id) })
	if r.Files != nil {
		s.undo.add(m.from.release)
		if err = m.from.begin(ctx, b, id, r.Image); err == nil {
			err = m.from.describe(&r)
		}
		if err != nil {
			return nil, err
		}
	}
	if m.group, err = b.cgroups.Create(string(id), b.launcher.GroupLimits(r.Spec.Limits)); err != nil {
		return nil, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	s.undo.add(func() { _ = b.removeGroup(m.group, time.Second) })
	if s.child, err = b.launcher.Spawn(m.group, m.ids); err != nil {
		reason, fix := diagnosis.Spawn(err)
		return nil, api.Errorf(api.KindUnisolated, "start a process in new namespaces: %s", reason).WithHint("%s", fix)
	}
	m.proc = s.child.Proc
	s.undo.add(s.child.Kill, func() { s.child.Conn.Close() })
	if m.watch, err = s.child.Watch(); err != nil {
		return nil, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	s.undo.add(m.watch.Close)
	r.Dir, r.Range, r.Workdir = m.dir, m.ids, m.workdir
	s.request = r
	defer s.interrupt(ctx)()
	if err := s.instruct(); err != nil {
		return nil, startError(ctx, id, s.withCause(err))
	}
	return s, nil
}

// interrupt makes the end of ctx end a read or write on the control socket.
func (s *guestStart) interrupt(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { s.child.Conn.SetDeadline(time.Unix(1, 0)) })
}

// instruct records the first process and sends it everything.
func (s *guestStart) instruct() error {
	id, err := proc.Identify(s.m.proc.Pid)
	if err != nil {
		return err
	}
	// For Reclaim, and for the next user of the uid range.
	if err := rundir.WritePID(s.m.dir, id); err != nil {
		return err
	}
	if s.m.ids != nil {
		if err := s.m.ids.Record(id); err != nil {
			return err
		}
	}
	return s.m.b.launcher.Instruct(s.child, s.request)
}

// finish waits until the guest waits for "go". After an error nothing is left.
func (s *guestStart) finish(ctx context.Context) (_ *warmGuest, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	m, spec := s.m, s.request.Spec
	defer func() {
		if err != nil {
			m.disk.close()
			s.undo.run()
		}
	}()
	defer s.interrupt(ctx)()
	disk, err := s.child.AwaitBuilt()
	if err != nil {
		return nil, startError(ctx, spec.ID, s.withCause(err))
	}
	m.disk.set(disk, false)
	if err = s.child.AwaitReady(); err != nil {
		return nil, startError(ctx, spec.ID, s.withCause(err))
	}
	// Before "go": after it the guest may outlive this process.
	r, err := m.newRecord(spec, disk)
	if err == nil {
		err = r.Write(m.dir)
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "sandbox %s: its record: %w", spec.ID, err)
	}
	m.born = s.child.Child
	m.run(link.New(filepath.Join(m.dir, initns.SocketName), m.proc.Pid))
	s.undo = nil
	return &warmGuest{machine: m, request: s.request, conn: s.child.Conn}, nil
}

// newRecord describes a started machine.
func (m *machine) newRecord(spec sandbox.Spec, disk int) (*rundir.Record, error) {
	id, err := proc.Identify(m.proc.Pid)
	if err != nil {
		return nil, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	r := &rundir.Record{
		ID: m.id, Backend: m.b.cfg.Name, PID: id.PID, Start: id.Start, Boot: boot, Range: -1, Groups: m.group.Where(),
		Layers: spec.Layers, Limits: spec.Limits, Asked: spec.Asked, Hostname: spec.Hostname, Workspace: spec.Workspace,
		Image: m.image, ForkLayers: len(m.from.layers),
	}
	if m.ids != nil {
		r.Range = m.ids.N
	}
	if k := m.b.cfg.Kernel; k != nil {
		r.Tools = filepath.Base(k.Tools())
	}
	if r.Disk, err = rundir.DiskOf(disk); err != nil {
		return nil, fmt.Errorf("the disk: %w", err)
	}
	return r, nil
}

// withCause adds to the end of a control socket how the process behind it ended: a guest
// that dies while it starts does not report that itself.
func (s *guestStart) withCause(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if !s.m.watch.Within(proc.StatusWait) {
		return fmt.Errorf("its first process is alive and has closed its control socket: %w", err)
	}
	ws, known := s.child.Ended(proc.StatusWait)
	s.child.Forget()
	return fmt.Errorf("%s: %w", endCause(ws, known, s.m.group.Stats().MemoryKills, s.m.b.cfg.Kernel != nil), err)
}

// startError returns why a guest did not start.
func startError(ctx context.Context, id api.SandboxID, err error) error {
	if cerr := ctx.Err(); cerr != nil {
		return api.Errorf(api.KindOf(cerr), "timeout: sandbox %s did not start: %w", id, cerr)
	}
	var s *child.StepError
	if !errors.As(err, &s) {
		return api.Errorf(api.KindInternal, "sandbox %s: the guest did not start: %w", id, err)
	}
	switch s.Step {
	case initns.SavedStep:
		return restoreError(id, s)
	case keeper.StepRestore:
		return api.Errorf(api.KindConflict, "sandbox %s: cannot restore its image, which is truncated or of another kind: %s", id, s.Text)
	}
	reason, fix := diagnosis.Step(s)
	return api.Errorf(api.KindUnisolated, "sandbox %s: %s", id, reason).WithHint("%s", fix)
}
