package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"hortus.dev/api"
	"hortus.dev/internal/backend/copied"
	"hortus.dev/internal/backend/link"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/tether"
)

// machine is a container whose first process is a guest. Its goroutine, wait, ends when the guest has
// ended, or when this process leaves the machine.
type machine struct {
	sandbox.UnsupportedMachine // Claim; one that waits for it is a waiting

	b         *Backend
	id        api.SandboxID
	spec      sandbox.Spec // without the environment
	container string       // the engine's ID
	pid       int          // of the guest; 0 if it has ended, or is at another host
	wire      *wire        // of one at another host; else nil
	root      *root
	files     *copied.Files // until the end of the machine; nil without a workspace
	link      *link.Link

	stop  context.CancelFunc // of wait
	done  chan struct{}      // closed when the guest has ended
	freed chan struct{}      // closed when wait has ended

	killing sync.Mutex // one kill at a time
	stored  bool       // by a kill
	turn    turn
	moved   time.Time // of the last pause or resume; with turn
	stands  bool      // a save holds it; with turn
	mu      sync.Mutex
	killed  bool
	proof   *api.Proof // once nothing is left
	cause   string
}

func newMachine(b *Backend, spec sandbox.Spec, container string, r *root, files *copied.Files) *machine {
	id := spec.ID
	spec.Env = nil
	m := &machine{b: b, id: id, spec: spec, container: container, root: r, files: files,
		turn: make(turn, 1), done: make(chan struct{}), freed: make(chan struct{})}
	if b.at.far {
		m.wire = newWire(b, id, container)
		m.link = link.Over(m.wire.open)
	} else {
		m.link = link.New(filepath.Join(b.rundir(id), guestSocket), 0)
	}
	return m
}

// turn is held by a call that pauses, resumes or stores: what is read of a container must not change meanwhile.
type turn chan struct{}

// take waits until no other call has the turn.
func (t turn) take(ctx context.Context, id api.SandboxID) error {
	if err := ctx.Err(); err != nil {
		return api.Errorf(api.KindOf(err), "sandbox %s: %w", id, err)
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return api.Errorf(api.KindOf(ctx.Err()), "sandbox %s is being paused, resumed or saved: %w", id, ctx.Err())
	}
}

func (t turn) end() { <-t }

// run starts the machine's goroutine.
func (m *machine) run() {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	if m.wire != nil {
		m.b.machines.Go(func() { m.keep(ctx) })
	}
	m.b.machines.Go(func() {
		defer close(m.freed)
		defer cancel()
		defer m.root.Release()
		if m.wait(ctx) {
			m.link.Close()
			close(m.done)
		}
	})
}

// keep keeps the wire. A container that breaks the protocol is ended.
func (m *machine) keep(ctx context.Context) {
	err := m.wire.run(ctx)
	if err == nil {
		return
	}
	m.b.log.Warn("a container or its engine broke the protocol of the link, and the sandbox is ended", "sandbox", m.id, "error", err)
	m.mu.Lock()
	if m.cause == "" && !m.killed {
		m.cause = "guest exited: " + err.Error()
	}
	m.mu.Unlock()
	if _, err := m.b.engine.ContainerKill(ctx, m.container, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		m.b.log.Warn("cannot end a container", "sandbox", m.id, "error", err)
	}
}

// maxWaitRetry is the maximum time between two questions of an engine that does not answer.
const maxWaitRetry = 5 * time.Second

// wait waits for the end of the guest, and keeps its cause. It returns false if ctx ended first. An engine
// that does not answer, as while it is restarted, is asked again.
func (m *machine) wait(ctx context.Context) bool {
	for retry := 50 * time.Millisecond; ; retry = min(2*retry, maxWaitRetry) {
		w := m.b.engine.ContainerWait(ctx, m.container, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		var err error
		select {
		case r := <-w.Result:
			m.ended(ctx, fmt.Sprintf("guest exited: exit status %d", r.StatusCode))
			return true
		case err = <-w.Error:
		}
		switch {
		case cerrdefs.IsNotFound(err):
			m.ended(ctx, "guest exited: its container was removed")
			return true
		case ctx.Err() != nil:
			return false
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return false
		}
	}
}

// ended keeps why the guest ended.
func (m *machine) ended(ctx context.Context, cause string) {
	got, err := m.b.engine.ContainerInspect(ctx, m.container, client.ContainerInspectOptions{})
	if err == nil && got.Container.State != nil && got.Container.State.OOMKilled && got.Container.State.ExitCode == 128+9 {
		cause = api.CauseMemory
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.killed {
		m.cause = cmp.Or(m.cause, cause)
	}
}

// Link implements sandbox.Machine.
func (m *machine) Link() tether.Link { return m.link }

// Done implements sandbox.Machine.
func (m *machine) Done() <-chan struct{} { return m.done }

// Cause implements sandbox.Machine.
func (m *machine) Cause() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// alive returns an error if the guest has ended or is being killed.
func (m *machine) alive() error {
	m.mu.Lock()
	killed := m.killed
	m.mu.Unlock()
	select {
	case <-m.done:
		killed = true
	default:
	}
	if killed {
		return api.Errorf(api.KindUnavailable, "sandbox %s has ended", m.id)
	}
	return nil
}

// Pause implements sandbox.Machine. The changes of a durable workspace are stored: who can see it then expects them there.
// If that fails, the machine runs on.
func (m *machine) Pause(ctx context.Context) error {
	if err := m.turn.take(ctx, m.id); err != nil {
		return err
	}
	defer m.turn.end()
	if err := m.halt(ctx); err != nil {
		return err
	}
	if err := m.b.store(ctx, m.spec, m.container, m.files); err != nil {
		return errors.Join(err, m.goOn(context.WithoutCancel(ctx)))
	}
	return nil
}

// halt pauses the container. The caller has the turn.
func (m *machine) halt(ctx context.Context) error {
	if err := m.alive(); err != nil {
		return err
	}
	m.link.Pause(true)
	if err := m.freeze(ctx); err != nil {
		m.link.Pause(false)
		return engineError(fmt.Sprintf("pause sandbox %s", m.id), err)
	}
	// A conflict is a container that is paused, or one that has ended.
	paused, err := m.b.paused(ctx, m.container)
	switch {
	case err != nil:
		return err
	case !paused:
		err = api.Errorf(api.KindUnavailable, "sandbox %s has ended", m.id)
	case groupOf(m.pid).thawed():
		err = api.Errorf(api.KindInternal, "the engine says that sandbox %s is paused, and its processes run", m.id)
	}
	if err != nil {
		m.link.Pause(false)
	}
	return err
}

// eventsWithin is the time in which an engine receives its own events of a pause or a resume. Docker, 20.10 to 25 at least, sets the state of
// a container by them a second time: a late event of a resume makes it report that a container which was paused again runs, until the
// event of that pause. Without the wait this was seen in 2 of 695 pauses, 14 and 19 ms after them.
const eventsWithin = 300 * time.Millisecond

// awaitEvents waits until the engine has received the events of the last pause or resume. The caller has the turn.
func (m *machine) awaitEvents(ctx context.Context) error {
	select {
	case <-time.After(time.Until(m.moved.Add(eventsWithin))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pauseTries is the maximum number of attempts to pause a container. With control groups of version 1, a
// runtime gives up if a process was forked or waited for a disk at the wrong moment.
const pauseTries = 6

// freeze pauses the container, unless it is paused or has ended.
func (m *machine) freeze(ctx context.Context) error {
	if err := m.awaitEvents(ctx); err != nil {
		return err
	}
	defer func() { m.moved = time.Now() }()
	for try, wait := 1, 20*time.Millisecond; ; try, wait = try+1, 2*wait {
		_, err := m.pause(ctx)
		if err == nil || cerrdefs.IsConflict(err) {
			return nil
		}
		if try == pauseTries || cerrdefs.IsNotFound(err) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// pause calls the engine. The end of ctx does not interrupt it: the engine would continue, and pause what nobody resumes.
func (m *machine) pause(ctx context.Context) (client.ContainerPauseResult, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	return m.b.engine.ContainerPause(ctx, m.container, client.ContainerPauseOptions{})
}

// Resume implements sandbox.Machine.
func (m *machine) Resume(ctx context.Context) error {
	if err := m.turn.take(ctx, m.id); err != nil {
		return err
	}
	defer m.turn.end()
	return m.goOn(ctx)
}

// goOn resumes the container, if it is paused. The caller has the turn.
func (m *machine) goOn(ctx context.Context) error {
	if err := m.alive(); err != nil {
		return err
	}
	paused, err := m.b.paused(ctx, m.container)
	if err != nil {
		return err
	}
	if paused {
		if err := m.awaitEvents(ctx); err != nil {
			return api.Errorf(api.KindOf(err), "resume sandbox %s: %w", m.id, err)
		}
		defer func() { m.moved = time.Now() }()
		if _, err := m.b.engine.ContainerUnpause(ctx, m.container, client.ContainerUnpauseOptions{}); err != nil {
			return engineError(fmt.Sprintf("resume sandbox %s", m.id), err)
		}
	}
	m.link.Pause(false)
	return nil
}

// paused reports whether a container is paused.
func (b *Backend) paused(ctx context.Context, id string) (bool, error) {
	got, err := b.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return false, engineError("inspect a container", err)
	}
	return got.Container.State != nil && got.Container.State.Paused, nil
}

// Stats implements sandbox.Machine.
func (m *machine) Stats(ctx context.Context) (api.Stats, error) {
	s := api.Stats{At: time.Now().UTC(), DiskUsedBytes: -1, DiskTotalBytes: -1, MemoryKills: -1, Processes: -1}
	if err := m.alive(); err != nil {
		return s, err
	}
	got, err := m.b.engine.ContainerStats(ctx, m.container, client.ContainerStatsOptions{})
	if err != nil {
		return s, engineError(fmt.Sprintf("read the accounting of sandbox %s", m.id), err)
	}
	defer got.Body.Close()
	var st container.StatsResponse
	if err := json.NewDecoder(io.LimitReader(got.Body, 1<<20)).Decode(&st); err != nil {
		return s, api.Errorf(api.KindInternal, "read the accounting of sandbox %s: %w", m.id, err)
	}
	s.CPUTimeMS = int64(st.CPUStats.CPUUsage.TotalUsage / 1e6)
	s.MemoryBytes, s.MemoryPeakBytes = int64(st.MemoryStats.Usage), int64(st.MemoryStats.MaxUsage)
	if s.MemoryPeakBytes == 0 {
		s.MemoryPeakBytes = -1 // control groups of version 2
	}
	s.MemoryOwnBytes = -1
	for _, field := range []string{"total_rss", "anon"} { // of versions 1 and 2
		if n, ok := st.MemoryStats.Stats[field]; ok {
			s.MemoryOwnBytes = int64(n)
			break
		}
	}
	g := groupOf(m.pid)
	s.MemoryKills, s.Processes = g.memoryKills(), g.processes()
	return s, nil
}

// howRemoved is how it is known that every process has ended.
const howRemoved = "the engine killed the container's first process, which the kernel lets end only after every other process of its pid namespace, and removed the container"

// store stores the changes of a durable workspace, for a Kill: nothing resumes the container any more.
func (m *machine) store(ctx context.Context) error {
	if err := m.turn.take(ctx, m.id); err != nil {
		return err
	}
	defer m.turn.end()
	if err := m.freeze(ctx); err != nil {
		return engineError("pause the container", err)
	}
	if groupOf(m.pid).thawed() {
		return api.Errorf(api.KindInternal, "the engine did not pause the container")
	}
	return m.b.store(ctx, m.spec, m.container, m.files)
}

const (
	// storeTimeout is the maximum duration of the copy of a workspace in a Kill. The end of its context does not interrupt it: the files
	// would be lost.
	storeTimeout = 10 * time.Minute
	// removeTimeout is the maximum duration of what follows.
	removeTimeout = 20 * time.Second
)

// Kill implements sandbox.Machine. Changes of a durable workspace are stored first, while no process runs any more. If that fails, the
// sandbox is killed nevertheless, and the first Kill returns the error.
func (m *machine) Kill(ctx context.Context) (api.Proof, error) { return m.end(ctx, true) }

// end is Kill; store is false if no command can have changed anything.
func (m *machine) end(ctx context.Context, store bool) (api.Proof, error) {
	m.killing.Lock()
	defer m.killing.Unlock()
	m.mu.Lock()
	if m.proof != nil {
		defer m.mu.Unlock()
		return *m.proof, nil
	}
	select {
	case <-m.done:
	default:
		m.killed = true
	}
	m.mu.Unlock()
	proof := api.Proof{Killed: int(groupOf(m.pid).processes()), How: howRemoved}
	var lost error
	if store && m.files.Durable() != nil && !m.stored {
		long, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		lost = m.store(long)
		cancel()
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		m.stored = true // it is tried once
		if lost != nil {
			lost = api.Errorf(api.KindOf(lost), "changes since the start or the last pause of sandbox %s are lost: %w", m.id, lost).WithHint("%s", api.HintOf(lost))
		}
	}
	if err := m.b.remove(ctx, m.container); err != nil {
		proof.Left = -1
		return proof, err
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		proof.Left = -1
		return proof, api.Errorf(api.KindTimeout, "sandbox %s did not end: %w", m.id, ctx.Err())
	}
	<-m.freed
	m.stop()
	m.files.Release()
	if err := os.RemoveAll(m.b.rundir(m.id)); err != nil {
		return proof, api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proof = &proof
	return proof, lost
}

// remove kills and removes a container with its volumes. It succeeds if there is none.
func (b *Backend) remove(ctx context.Context, id string) error {
	_, err := b.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	for wait := 5 * time.Millisecond; cerrdefs.IsConflict(err); wait = min(2*wait, 200*time.Millisecond) {
		// Another client removes it, or an engine that starts.
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return api.Errorf(api.KindTimeout, "remove container %s: %w", id, err)
		}
		_, err = b.engine.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return engineError("remove container "+id, err)
	}
	return nil
}

// Leave implements sandbox.Machine.
func (m *machine) Leave(context.Context) error {
	if err := m.alive(); err != nil {
		return err
	}
	m.stop()
	m.link.Close()
	<-m.freed
	m.files.Leave()
	return nil
}

var _ sandbox.Machine = (*machine)(nil)
