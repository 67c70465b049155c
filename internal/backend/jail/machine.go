package jail

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/forker"
	"hortus.dev/internal/backend/jail/ids"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/jail/launch"
	"hortus.dev/internal/backend/jail/workdir"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/platform/proc"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
	"hortus.dev/internal/storage/layer"
)

// machine is a running guest. Its goroutine, wait, ends when the guest has ended and
// everything that the machine held is released.
type machine struct {
	sandbox.UnsupportedMachine // Claim; one that waits for it is a waiting

	b       *Backend
	id      api.SandboxID
	limits  api.Limits
	dir     string
	ids     *ids.Range   // nil for a single id
	workdir *workdir.Dir // nil without a workspace
	group   *cgroup.Group
	proc    *os.Process
	born    *forker.Child // nil if another process started it
	watch   *proc.Watch
	disk    disk
	link    *link.Link
	trees   []*launch.Tree // of the root, if this process mounted it
	layers  workdir.Leases // of the root, if another process did
	digests []layer.Digest // of the root
	from    fromLayers     // that forks made
	own     ownLayers      // that its own forks made; the turn has it
	image   api.ImageMark  // of its memory images, with a kernel of its own
	adopted bool           // another process started it

	turn  turn
	done  chan struct{} // closed when the guest was reaped
	freed chan struct{} // closed when nothing is left, or this process has left the machine

	hold   hold         // of a keeper, after a save
	shared sharedMemory // memory

	mu       sync.Mutex
	killed   bool
	paused   bool
	standing bool // a save has left every process frozen
	cause    string
	proof    *api.Proof
	last     api.Stats // at the end of the guest
	left     error     // why something could not be released
}

func newMachine(b *Backend, id api.SandboxID, limits api.Limits) *machine {
	return &machine{b: b, id: id, limits: limits, dir: b.rundir(id), disk: disk{fd: -1},
		turn: make(turn, 1), done: make(chan struct{}), freed: make(chan struct{})}
}

// run starts the machine's goroutine.
func (m *machine) run(l *link.Link) {
	m.link = l
	m.b.machines.Add(1)
	go m.wait()
}

// wait waits for the end of the guest, and reaps it if it is a child. When pid 1 of a pid
// namespace ends, the kernel has killed and reaped every other process in it: that is the
// proof of a kill.
func (m *machine) wait() {
	defer m.b.machines.Done()
	stop := m.watchLimits()
	over := m.watch.Wait()
	m.hold.close()
	stop()
	if !over {
		m.detach()
		close(m.freed)
		return
	}
	m.mu.Lock()
	wanted := !m.killed && m.cause == ""
	m.mu.Unlock()
	ws, known := m.reap(wanted)
	m.watch.Close()
	last := m.meter().read()
	m.mu.Lock()
	m.last = last
	if !m.killed && m.cause == "" {
		m.cause = endCause(ws, known, last.MemoryKills, m.b.cfg.Kernel != nil)
	}
	m.mu.Unlock()
	close(m.done)
	m.link.Close()
	left := m.free()
	m.mu.Lock()
	m.left = left
	m.mu.Unlock()
	close(m.freed)
}

// reap waits until the guest's first process was reaped, if this process had it forked, and
// returns its exit status. For another process the status is read only if it is wanted,
// since that may take a while.
func (m *machine) reap(wanted bool) (ws syscall.WaitStatus, known bool) {
	if m.born != nil {
		ws, known = m.born.Ended(proc.StatusWait)
		m.born.Close()
	}
	if !known && wanted {
		ws, known = m.watch.Status()
	}
	m.proc.Release()
	return ws, known
}

// endCause returns why a guest ended that was not killed.
func endCause(ws syscall.WaitStatus, known bool, memoryKills int64, ownKernel bool) string {
	switch {
	case !known && ownKernel && memoryKills > 0: // the memory limit ends such a sandbox whole
		return api.CauseMemory
	case !known && memoryKills > 0:
		return "guest exited: its exit status is unknown, another process reaped it; the memory limit had killed processes of the sandbox"
	case !known:
		return "guest exited: its exit status is unknown, another process reaped it"
	case ws.Signaled() && ws.Signal() == syscall.SIGKILL && memoryKills > 0:
		return api.CauseMemory
	case ws.Signaled():
		return "guest exited: signal: " + ws.Signal().String()
	case !ownKernel:
		return fmt.Sprintf("guest exited: exit status %d", ws.ExitStatus())
	case ws.ExitStatus() == keeper.ExitKilled && memoryKills > 0:
		// A keeper ends after its kernel, which the memory limit ends whole.
		return api.CauseMemory
	case ws.ExitStatus() == keeper.ExitFailed:
		return "guest exited: the keeper of its kernel failed"
	case ws.ExitStatus() > keeper.ExitSignal:
		return "guest exited: its kernel ended by a signal: " + syscall.Signal(ws.ExitStatus()-keeper.ExitSignal).String()
	}
	return fmt.Sprintf("guest exited: its kernel ended with exit status %d", ws.ExitStatus())
}

// free releases what the machine held, after its last process has ended.
func (m *machine) free() error {
	err := m.b.removeGroup(m.group, removeTimeout)
	m.disk.close()
	holders, herr := image.Holders(m.b.basesDir(m.id))
	if herr != nil {
		m.b.log.Warn("memory of a fork stays in use", "sandbox", m.id, "err", herr)
	}
	if rerr := m.b.removeDirs(m.id); err == nil {
		err = rerr
	}
	if m.ids != nil {
		m.b.ids.Put(m.ids)
	}
	if len(holders) > 0 {
		m.b.thaw(context.Background(), holders)
	}
	m.from.release()
	m.layers.Release()
	m.b.launcher.Release(m.trees)
	m.workdir.Release()
	if err != nil {
		m.b.log.Error("sandbox not released completely", "sandbox", m.id, "err", err)
	}
	return err
}

// detach releases what this process holds of a machine that keeps running.
func (m *machine) detach() {
	m.disk.close()
	if m.ids != nil {
		m.b.ids.Leave(m.ids)
	}
	m.from.release()
	m.layers.Release()
	m.b.launcher.Release(m.trees)
	m.workdir.Leave()
	if m.born != nil {
		m.born.Close()
	}
	m.proc.Release()
}

// Leave gives up the machine while it runs. See sandbox.Machine.
func (m *machine) Leave(ctx context.Context) error {
	if err := m.turn.take(ctx, m.id); err != nil { // a save is not interrupted
		return err
	}
	defer m.turn.end()
	m.mu.Lock()
	over := m.ended()
	m.mu.Unlock()
	if over {
		return ended(m.id)
	}
	m.link.Close()
	m.watch.Close()
	<-m.freed
	return nil
}

// Link connects to the guest's server.
func (m *machine) Link() tether.Link { return m.link }

// Done is closed when the guest has ended.
func (m *machine) Done() <-chan struct{} { return m.done }

// Cause returns why the guest ended if it was not killed.
func (m *machine) Cause() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// ended reports whether the guest has ended, or is being killed. The caller holds mu.
func (m *machine) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return m.killed
	}
}

func ended(id api.SandboxID) error {
	return api.Errorf(api.KindUnavailable, "sandbox %s has ended", id)
}

// How it is known that every process has ended.
const (
	howPID1  = "the init of its pid namespace was reaped, which the kernel allows only after every other process of the namespace"
	howGroup = "cgroup.kill, then the init of its pid namespace was reaped and its control groups were empty"
	// The init of an adopted sandbox is reaped by its own parent.
	howAdopted = "the init of its pid namespace has ended, which the kernel allows only after every other process of the namespace, and its control groups were empty"
)

// Kill ends every process. See sandbox.Machine.
func (m *machine) Kill(ctx context.Context) (api.Proof, error) {
	m.mu.Lock()
	if m.proof == nil {
		m.proof = &api.Proof{How: howPID1}
		if m.adopted {
			m.proof.How = howAdopted
		}
		select {
		case <-m.done:
		default:
			m.killed = true
			m.proof.Killed = m.meter().count()
			// Frozen processes of version 1 die only after a thaw. All are killed before
			// it, so that none of them runs after the thaw.
			if m.paused {
				for _, pid := range m.group.Procs() {
					unix.Kill(pid, unix.SIGKILL)
				}
				m.group.Thaw(context.WithoutCancel(ctx))
			}
			if m.group.KillAll() && !m.adopted {
				m.proof.How = howGroup
			}
			// os.ErrProcessDone means that wait was faster.
			m.proc.Kill()
		}
	}
	proof := *m.proof
	m.mu.Unlock()
	select {
	case <-m.freed:
	case <-ctx.Done():
		proof.Left = -1
		return proof, api.Errorf(api.KindOf(ctx.Err()), "timeout: sandbox %s did not end: %w", m.id, ctx.Err())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left != nil {
		proof.Left = len(m.group.Procs())
		return proof, api.Errorf(api.KindInternal, "sandbox %s was killed but not released: %w", m.id, m.left)
	}
	return proof, nil
}
