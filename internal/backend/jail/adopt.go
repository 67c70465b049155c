package jail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
)

// adoptTimeout bounds taking one machine over.
const adoptTimeout = 20 * time.Second

// Adopt takes over a machine that a process started which is gone. See
// sandbox.Adopter.
//
// That the process of the record is still the one that was started is proven three
// times: by its start, by its control groups, and by the socket in the run directory,
// on which it listens.
func (b *Backend) Adopt(ctx context.Context, id api.SandboxID) (_ sandbox.Adopted, err error) {
	var none sandbox.Adopted
	if !id.Valid() {
		return none, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", string(id))
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	r, err := readRecord(b.rundir(id), id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, api.Errorf(api.KindNotFound, "nothing is left of sandbox %s that could be taken over", id)
	case err != nil:
		return none, api.Errorf(api.KindConflict, "sandbox %s: %w", id, err)
	case r.Backend != b.Name() || (r.Range >= 0) != b.root:
		return none, api.Errorf(api.KindConflict, "sandbox %s is of backend %q of another user", id, r.Backend)
	}
	if boot, err := bootID(); err != nil || boot != r.Boot {
		return none, api.Errorf(api.KindNotFound, "sandbox %s ended with an earlier run of this machine", id)
	}
	// Undone in reverse order when a later step fails; the machine itself is left alone.
	var undo []func()
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
		}
	}()
	gone := api.Errorf(api.KindNotFound, "the first process of sandbox %s has ended", id)
	m := &machine{b: b, id: id, limits: r.Limits, dir: b.rundir(id), image: r.Image, adopted: true,
		turn: make(chan struct{}, 1), done: make(chan struct{}), freed: make(chan struct{}), disk: -1}
	if m.end, err = watchEnd(r.PID); errors.Is(err, unix.ESRCH) {
		return none, gone
	} else if err != nil {
		return none, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	undo = append(undo, m.end.close)
	if m.proc, err = os.FindProcess(r.PID); err != nil {
		return none, gone
	}
	undo = append(undo, func() { m.proc.Release() })
	// Descriptors hold the process now: that it is the one of the record stays true.
	if !r.process().alive() || m.end.ended() {
		return none, gone
	}
	if err := m.regroup(r); err != nil {
		return none, api.Errorf(api.KindConflict, "sandbox %s: %w", id, err)
	}
	if r.Range >= 0 {
		if m.lease, err = b.ids.retake(ctx, r.Range, r.process()); err != nil {
			return none, api.Errorf(api.KindConflict, "sandbox %s: its range of ids: %w", id, err)
		}
		undo = append(undo, func() { b.ids.letGo(m.lease) })
	}
	undo = append(undo, func() { releaseAll(m.layers) })
	if m.layers, err = b.relet(r.Layers); err != nil {
		return none, err
	}
	if m.ws, err = b.reattach(ctx, r.Workspace, r.PID); err != nil {
		return none, err
	}
	undo = append(undo, m.ws.leave)
	undo = append(undo, func() { unix.Close(m.disk) })
	m.reopenDisk(r)
	m.link = newLink(filepath.Join(m.dir, initns.SocketName), r.PID, m.done)
	c, err := m.link.dial(ctx)
	if err != nil {
		return none, api.Errorf(api.KindConflict, "sandbox %s: %w", id, err)
	}
	c.Close()
	if m.paused, err = m.group.Frozen(); err != nil {
		return none, api.Errorf(api.KindInternal, "sandbox %s: %w", id, err)
	}
	if err = m.group.Settle(ctx, m.paused); err != nil { // it was being stopped, or let go
		return none, api.Errorf(api.KindOf(err), "sandbox %s: %w", id, err)
	}
	m.link.pause(m.paused)
	b.machines.Add(1)
	go m.wait()
	return sandbox.Adopted{Machine: m, Spec: r.spec(), Paused: m.paused}, nil
}

// regroup finds the control groups of a machine and makes sure that it is in them.
func (m *machine) regroup(r *record) (err error) {
	if m.group, err = cgroup.At(string(r.ID), r.Groups); err != nil {
		return err
	}
	in, err := m.group.Holds(r.PID)
	if err == nil && !in {
		err = fmt.Errorf("process %d is not in its control groups", r.PID)
	}
	return err
}

// relet leases the layers below a root again: nobody collects them while the sandbox
// lives.
func (b *Backend) relet(layers []layer.Digest) (all []*layer.Lease, err error) {
	for _, d := range layers {
		_, le, err := b.cfg.Layers.Lease(d)
		switch {
		case api.KindOf(err) == api.KindNotFound: // what is mounted stays; nothing new starts from it
			b.log.Warn("a layer below a sandbox that was taken over is gone", "layer", d)
		case err != nil:
			return all, err
		default:
			all = append(all, le)
		}
	}
	return all, nil
}

func releaseAll(all []*layer.Lease) {
	for _, l := range all {
		l.Release()
	}
}

// reattach takes over what a machine has at /workspace; nil where that is nothing.
func (b *Backend) reattach(ctx context.Context, w *sandbox.Workspace, pid int) (_ *attached, err error) {
	if w == nil {
		return nil, nil
	}
	a := &attached{}
	if a.leases, err = b.relet(w.Layers); err == nil && w.Upper != "" {
		if b.cfg.Workspaces == nil {
			err = api.Errorf(api.KindUnsupported, "this daemon keeps no workspaces")
		} else {
			a.upper, err = b.cfg.Workspaces.TakeOver(ctx, w.Upper, pid)
		}
	}
	if err != nil {
		releaseAll(a.leases)
		return nil, err
	}
	return a, nil
}

// leave is release for a sandbox that goes on: who takes it over takes this over too.
func (a *attached) leave() {
	if a == nil {
		return
	}
	a.upper.Leave()
	releaseAll(a.leases)
}

// reopenDisk finds the disk again. Where only its size is to be had, or nothing, less
// can be told and saved of the sandbox.
func (m *machine) reopenDisk(r *record) {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", r.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(root)
	dir := "."
	if m.b.cfg.Kernel == nil { // else the disk is what the keeper has for its root
		dir = "dev/shm" // a directory of it, which nobody inside can mount over
	}
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, dir, &how)
	if err != nil {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || uint64(st.Dev) != r.Disk.Dev {
		unix.Close(fd)
		return
	}
	m.disk, m.sizeOnly = fd, st.Ino != r.Disk.Ino
	if !m.sizeOnly || len(r.Disk.Handle) == 0 {
		return
	}
	top, err := unix.OpenByHandleAt(fd, unix.NewFileHandle(r.Disk.Type, r.Disk.Handle), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return // an ordinary user may not
	}
	if unix.Fstat(top, &st) != nil || uint64(st.Dev) != r.Disk.Dev || st.Ino != r.Disk.Ino {
		unix.Close(top)
		return
	}
	unix.Close(fd)
	m.disk, m.sizeOnly = top, false
}

// Leave lets go of the machine while it runs. See sandbox.Leaver.
func (m *machine) Leave(ctx context.Context) error {
	if err := m.takeTurn(ctx); err != nil { // a save is not cut in the middle
		return err
	}
	defer m.endTurn()
	m.mu.Lock()
	if m.ended() {
		m.mu.Unlock()
		return api.Errorf(api.KindUnavailable, "sandbox %s has ended", m.id)
	}
	m.leaving = true
	m.mu.Unlock()
	m.link.Close()
	m.end.close()
	<-m.freed
	return nil
}

// letGo closes what this process holds of a machine that goes on.
func (m *machine) letGo() {
	m.mu.Lock()
	disk := m.disk
	m.disk = -1
	m.mu.Unlock()
	if disk >= 0 {
		unix.Close(disk)
	}
	if m.lease != nil {
		m.b.ids.letGo(m.lease)
	}
	releaseAll(m.layers)
	m.ws.leave()
	if m.born != nil {
		m.born.Close()
	}
	m.proc.Release()
}

// reap waits until the guest's first process was collected, where this process had it
// forked, and gives the status with which it ended; of another only where that is
// wanted, since it may have to be waited for.
func (m *machine) reap(wanted bool) (ws syscall.WaitStatus, known bool) {
	if m.born != nil {
		ws, known = m.born.Ended(statusWait)
		m.born.Close()
	}
	if !known && wanted {
		ws, known = m.end.status()
	}
	m.proc.Release()
	return ws, known
}
