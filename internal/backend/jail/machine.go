package jail

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/internal/backend/jail/forker"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/sandbox/tether"
	"hortus.dev/internal/storage/layer"
)

// pidFile holds, in the run directory, the first process's identity.
const pidFile = "pid"

// removeWait bounds how long dying processes may keep a group busy.
const removeWait = 5 * time.Second

// vacateWait bounds how long they may where nobody waits any more.
const vacateWait = time.Minute

// machine is a booted guest. Its goroutine, wait, ends when the guest has ended
// and everything that it held is freed.
type machine struct {
	b      *Backend
	id     api.SandboxID
	limits api.Limits
	dir    string
	lease  *lease
	ws     *attached // nil without a workspace
	group  *cgroup.Group
	proc   *os.Process
	born   *forker.Child // nil for one that another process started
	end    *ending
	disk   int
	link   *link
	layers []*layer.Lease // of the root, where this process did not mount it itself
	image  api.ImageMark  // of what it saves, with a kernel of its own

	// adopted says that another process started it, sizeOnly that the disk is good
	// for its size alone then.
	adopted, sizeOnly bool

	turn  chan struct{} // holds one while the sandbox is stopped, let go or saved
	done  chan struct{} // the guest was reaped
	freed chan struct{} // nothing is left, or it was let go of

	mu      sync.Mutex
	killed  bool
	paused  bool
	leaving bool // it goes on without this process
	gone    bool // it has ended, or was let go of
	// holder is open for as long as a keeper is to hold its kernel after a save, and
	// standing says that a save left every process frozen.
	holder   *net.UnixConn
	standing bool
	cause    string
	proof    *api.Proof
	last     api.Stats // what was read when the guest ended
	left     error     // why something could not be freed
}

// wait waits for the guest's end, and reaps it where it is a child. When pid 1 of a
// pid namespace ends, the kernel has killed and reaped everything else in it: that is
// the proof of a kill.
func (m *machine) wait() {
	defer m.b.machines.Done()
	stop, unwatch := m.watchCPU(), m.watchDisk()
	ended := m.end.wait()
	m.mu.Lock()
	m.gone = true
	m.mu.Unlock()
	m.dropHold()
	stop()
	unwatch()
	if !ended {
		m.letGo()
		close(m.freed)
		return
	}
	m.mu.Lock()
	wanted := !m.killed && m.cause == ""
	m.mu.Unlock()
	ws, known := m.reap(wanted)
	m.end.close()
	last := m.read()
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

// endCause says why a guest ended that nobody killed.
func endCause(ws syscall.WaitStatus, known bool, memoryKills int64, ownKernel bool) string {
	switch {
	case !known && ownKernel && memoryKills > 0: // it was the one that could be
		return api.CauseMemory
	case !known && memoryKills > 0:
		return "guest exited: its status went to another process; the memory limit had ended processes of the sandbox"
	case !known:
		return "guest exited: its status went to another process"
	case ws.Signaled() && ws.Signal() == syscall.SIGKILL && memoryKills > 0:
		return api.CauseMemory
	case ws.Signaled():
		return "guest exited: signal: " + ws.Signal().String()
	case !ownKernel:
		return fmt.Sprintf("guest exited: exit status %d", ws.ExitStatus())
	case ws.ExitStatus() == keeper.ExitKilled && memoryKills > 0:
		// A keeper ends after its kernel, which the limit of memory ends whole.
		return api.CauseMemory
	case ws.ExitStatus() == keeper.ExitFailed:
		return "guest exited: the keeper of its kernel could not go on"
	case ws.ExitStatus() > keeper.ExitSignal:
		return "guest exited: its kernel ended by a signal: " + syscall.Signal(ws.ExitStatus()-keeper.ExitSignal).String()
	}
	return fmt.Sprintf("guest exited: its kernel ended with exit status %d", ws.ExitStatus())
}

// vacate removes a group. One that is busy after the wait is removed later: a process
// that was killed dies when the host lets it, and a group that stays until the next
// daemon comes is seen by everybody. [Backend.Close] waits for that.
func (b *Backend) vacate(g *cgroup.Group, wait time.Duration) error {
	err := g.Remove(wait)
	if err != nil {
		b.machines.Go(func() {
			if err := g.Remove(vacateWait); err != nil {
				b.log.Error("a control group is left", "err", err)
			}
		})
	}
	return err
}

// free gives back what the machine held, after its last process.
func (m *machine) free() error {
	err := m.b.vacate(m.group, removeWait)
	m.mu.Lock()
	disk := m.disk
	m.disk = -1
	m.mu.Unlock()
	if disk >= 0 {
		unix.Close(disk)
	}
	if rerr := os.RemoveAll(m.dir); err == nil {
		err = rerr
	}
	if m.lease != nil {
		m.b.ids.put(m.lease)
	}
	releaseAll(m.layers)
	m.ws.release()
	if err != nil {
		m.b.log.Error("sandbox not freed whole", "sandbox", m.id, "err", err)
	}
	return err
}

// Link reaches the guest's server.
func (m *machine) Link() tether.Link { return m.link }

// Done is closed when the guest has ended.
func (m *machine) Done() <-chan struct{} { return m.done }

// Cause says why it ended when it was not killed.
func (m *machine) Cause() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// Pause freezes every process.
func (m *machine) Pause(ctx context.Context) error { return m.freeze(ctx, true) }

// Resume lets them go on.
func (m *machine) Resume(ctx context.Context) error { return m.freeze(ctx, false) }

func (m *machine) freeze(ctx context.Context, on bool) error {
	if a := m.b.limit(api.CapPause); !a.OK {
		return api.Errorf(api.KindUnsupported, "capability %s is missing: %s", api.CapPause, a.Reason).WithHint("%s", a.Fix)
	}
	if err := m.takeTurn(ctx); err != nil {
		return err
	}
	defer m.endTurn()
	return m.setFrozen(ctx, on)
}

// takeTurn waits until nobody else stops or saves the sandbox.
func (m *machine) takeTurn(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return api.Errorf(api.KindOf(ctx.Err()), "sandbox %s is being saved: %w", m.id, ctx.Err())
	}
}

func (m *machine) endTurn() { <-m.turn }

// setFrozen is for who has the turn.
func (m *machine) setFrozen(ctx context.Context, on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended() {
		return api.Errorf(api.KindUnavailable, "sandbox %s has ended", m.id)
	}
	if m.paused == on {
		return nil
	}
	change := m.group.Thaw
	if on {
		m.link.pause(true)
		change = m.group.Freeze
	}
	if err := change(ctx); err != nil {
		if on {
			// Half frozen is worse than not at all.
			m.group.Thaw(context.WithoutCancel(ctx))
			m.link.pause(false)
		}
		return api.Errorf(api.KindOf(err), "sandbox %s: %w", m.id, err)
	}
	if !on {
		m.link.pause(false)
	}
	m.paused = on
	return nil
}

func (m *machine) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return m.killed
	}
}

// Stats tells the use of resources, and after the end what it was then.
func (m *machine) Stats(context.Context) (api.Stats, error) {
	select {
	case <-m.done:
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.last, nil
	default:
		return m.read(), nil
	}
}

// read asks the host's accounting: the groups where there are any, else the
// process table.
func (m *machine) read() api.Stats {
	g := m.group.Stats()
	s := api.Stats{At: time.Now(), CPUTimeMS: -1, MemoryBytes: g.Memory, MemoryPeakBytes: g.MemoryPeak,
		MemoryKills: g.MemoryKills, Processes: g.Processes, DiskUsedBytes: -1, DiskTotalBytes: -1}
	if g.CPU >= 0 {
		s.CPUTimeMS = g.CPU.Milliseconds()
	}
	if g.CPU < 0 || g.Memory < 0 || g.Processes < 0 {
		u := usage(m.proc.Pid)
		if g.CPU < 0 && u.processes > 0 {
			s.CPUTimeMS = u.cpu.Milliseconds()
		}
		if g.Memory < 0 && u.processes > 0 {
			s.MemoryBytes = u.memory
		}
		if g.Processes < 0 {
			s.Processes = u.tasks
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var fs unix.Statfs_t
	if m.disk >= 0 && unix.Fstatfs(m.disk, &fs) == nil {
		s.DiskTotalBytes = int64(fs.Blocks) * fs.Bsize
		s.DiskUsedBytes = s.DiskTotalBytes - int64(fs.Bfree)*fs.Bsize
	}
	return s
}

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
			m.proof.Killed = m.count()
			// Frozen processes of version 1 die only once they are thawed. All at once
			// and while they cannot run, so that nothing of them sees the thaw.
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
		return proof, api.Errorf(api.KindOf(ctx.Err()), "sandbox %s: its end was not seen in time: %w", m.id, ctx.Err())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left != nil {
		proof.Left = len(m.group.Procs())
		return proof, api.Errorf(api.KindInternal, "sandbox %s was killed but not freed: %w", m.id, m.left)
	}
	return proof, nil
}

// How the end of every process is known.
const (
	howPID1  = "the init of its pid namespace was reaped, which the kernel allows only after every other process of the namespace"
	howGroup = "cgroup.kill, then the init of its pid namespace was reaped and its control groups were empty"
	// The init of a sandbox that was taken over is reaped by its own parent.
	howAdopted = "the init of its pid namespace has ended, which the kernel allows only after every other process of the namespace, and its control groups were empty"
)

// count counts the processes that are alive; -1 where the host cannot tell.
func (m *machine) count() int {
	if n := len(m.group.Procs()); n > 0 {
		return n
	}
	if u := usage(m.proc.Pid); u.processes > 0 {
		return int(u.processes)
	}
	return -1
}

// watchCPU enforces Limits.CPUTimeMS: it looks again when the rest could be used
// up at the earliest. The function that it returns ends the watch.
func (m *machine) watchCPU() (stop func()) {
	if m.limits.CPUTimeMS <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			used := m.read().CPUTimeMS
			if used >= m.limits.CPUTimeMS {
				m.mu.Lock()
				m.cause = api.CauseCPUTime
				m.mu.Unlock()
				m.group.Thaw(ctx)
				m.proc.Kill()
				return
			}
			rest := time.Duration(m.limits.CPUTimeMS-max(used, 0)) * time.Millisecond
			wait := max(rest/time.Duration(cpus(m.limits.CPUs)), time.Millisecond)
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// String names the machine in messages.
func (m *machine) String() string { return fmt.Sprintf("%s %s", m.b.cfg.Name, m.id) }
