package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/server/placement"
	"hortus.dev/internal/store"
)

const (
	// movesEvery is the time between two looks for what can be moved from a node that drains.
	movesEvery = 3 * time.Second
	// movesAtOnce is how many sandboxes of a node are moved at the same time, if it has as many processors: a sandbox does not run while its move waits for one.
	movesAtOnce = 4
	// moveAgain is the time after which a move that failed is tried again, and doubles with each failure up to moveAgainMost: each try stops the sandbox for a moment.
	moveAgain     = 30 * time.Second
	moveAgainMost = 10 * time.Minute
	// resumeWithin is how long a sandbox that was moved is asked to continue: longer than a node that died meanwhile takes to be replaced.
	// resumeLate is how long it is asked again, once, if the daemon stops meanwhile: its new node finds out by itself.
	resumeWithin = time.Minute
	resumeAgain  = 500 * time.Millisecond
	resumeLate   = 3 * time.Second
)

// moves are what becomes of the sandboxes of this node since it drains.
type moves struct {
	ctx     context.Context // ends with Close
	running sync.WaitGroup

	mu sync.Mutex
	// begun is true once other nodes can be asked; done is closed when the goroutine of startMoves has ended, and nil without one; stop ends it between two moves.
	begun bool
	done  chan struct{}
	stop  chan struct{}
	of    map[api.SandboxID]*move
	// looked is closed after the first look.
	looked chan struct{}
	// work was handed over.
	work []admin.WorkMove
}

// start notes that a sandbox is being moved. It is false if another caller moves it.
func (m *moves) start(id api.SandboxID) (ok bool) {
	m.set(id, func(x *move) {
		if ok = x.State == admin.MovePending; ok {
			x.State = admin.MoveRunning
		}
	})
	return ok
}

// move is that of one sandbox.
type move struct {
	admin.SandboxMove
	// again is when it is tried again, and failures how often it failed.
	again    time.Time
	failures int
}

// set changes the move of a sandbox, and returns it.
func (m *moves) set(id api.SandboxID, change func(*move)) move {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[api.SandboxID]*move{}
	}
	x := m.of[id]
	if x == nil {
		x = &move{SandboxMove: admin.SandboxMove{Sandbox: id, State: admin.MovePending}}
		m.of[id] = x
	}
	change(x)
	return *x
}

// drop forgets the move of a sandbox that has ended.
func (m *moves) drop(id api.SandboxID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}

// count returns how many sandboxes were moved.
func (m *moves) count() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.of {
		if x.State == admin.MoveDone {
			n++
		}
	}
	return n
}

// list returns the moves that are over and those of sandboxes that are here, by their ID.
func (m *moves) list(here []api.Sandbox) (out []admin.SandboxMove) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, x := range m.of {
		if x.State == admin.MoveDone || x.State == admin.MoveRunning || slices.ContainsFunc(here, func(s api.Sandbox) bool { return s.ID == id }) {
			out = append(out, x.SandboxMove)
		}
	}
	slices.SortFunc(out, func(a, b admin.SandboxMove) int { return strings.Compare(string(a.Sandbox), string(b.Sandbox)) })
	return out
}

// startMoves begins to move what this node has, until the daemon ends, unless that has begun. The result is closed when work that can stop was handed over for the first
// time; it is nil if nothing is moved.
func (f *Fleet) startMoves() <-chan struct{} {
	m := &f.moves
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.begun || m.done != nil || f.leaving.Load() || m.ctx.Err() != nil {
		return m.looked
	}
	done, stop, first := make(chan struct{}), make(chan struct{}), make(chan struct{})
	m.done, m.stop, m.looked = done, stop, first
	looked := sync.OnceFunc(func() { close(first) })
	m.running.Go(func() {
		defer close(done)
		tick := time.NewTicker(movesEvery)
		defer tick.Stop()
		for {
			if err := f.look(m.ctx, stop, looked); err != nil && m.ctx.Err() == nil {
				f.cfg.Logger.Warn("cannot look for sandboxes to move to other nodes; retrying", "error", err)
			}
			select {
			case <-m.ctx.Done():
				return
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	return first
}

// stopMoves ends what startMoves began, and waits until the moves under way are over, or ctx ends.
func (f *Fleet) stopMoves(ctx context.Context) {
	f.moves.mu.Lock()
	done, stop := f.moves.done, f.moves.stop
	f.moves.stop = nil
	f.moves.mu.Unlock()
	if stop != nil {
		close(stop)
	}
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// Evacuate moves what can be moved from this node, whose daemon stops, until ctx ends. What could not be moved once it was paused stays paused for the
// node that takes it over. It returns how many were moved, without those of an earlier drain.
func (f *Fleet) Evacuate(ctx context.Context) (n int, err error) {
	f.leaving.Store(true)
	f.draining.Store(true)
	before := f.moves.count()
	f.stopMoves(ctx)
	err = f.look(ctx, nil, func() {})
	return f.moves.count() - before, err
}

// look moves once what can be moved, until stop is closed. It calls handed when the work that can stop has gone.
func (f *Fleet) look(ctx context.Context, stop <-chan struct{}, handed func()) error {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() {
		if f.cfg.Work != nil {
			f.cfg.Work.HandOver(ctx)
		}
		handed()
	})
	return f.moveAll(ctx, stop)
}

// moveAll moves once the sandboxes that can be moved, until stop is closed.
func (f *Fleet) moveAll(ctx context.Context, stop <-chan struct{}) error {
	all, err := f.sandboxesOn(ctx, f.cfg.Node)
	turns := make(chan struct{}, min(movesAtOnce, runtime.NumCPU()))
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, s := range slices.Backward(all) { // the oldest first
		x := f.judge(ctx, s)
		if x.State != admin.MovePending || x.Reason != "" {
			continue
		}
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-stop:
			return nil // the rest is moved as the daemon stops
		default:
		}
		wg.Go(func() {
			defer func() { <-turns }()
			f.moveOne(ctx, s)
		})
	}
	return err
}

// judge says what becomes of a sandbox that was of this node when it was listed.
func (f *Fleet) judge(ctx context.Context, s api.Sandbox) move {
	was := f.moves.set(s.ID, func(*move) {})
	if was.State == admin.MoveRunning || was.State == admin.MoveRefused && time.Now().Before(was.again) {
		return was
	}
	if was.State == admin.MoveDone { // unless it is here again
		if row, err := f.cfg.Sandbox(ctx, s.ID); err != nil || row.Owner != f.cfg.Owner {
			return was
		}
	}
	needs, err := f.needs(ctx, s)
	if err == nil {
		_, err = f.targets(ctx, s, needs)
	}
	return f.moves.set(s.ID, func(x *move) {
		switch {
		case x.State == admin.MoveRunning || x.State == admin.MoveDone && (err != nil || was.State != admin.MoveDone): // it is not here any more
		case err == nil:
			*x = move{SandboxMove: admin.SandboxMove{Sandbox: s.ID, State: admin.MovePending}, failures: x.failures}
		case api.KindOf(err) == api.KindConflict:
			x.State, x.Reason = admin.MovePending, err.Error()
		default:
			x.State, x.Reason = admin.MoveRefused, err.Error()
		}
	})
}

// needs returns what another node must be able to restore to continue a sandbox of this one, or why the sandbox stays.
func (f *Fleet) needs(ctx context.Context, s api.Sandbox) ([]string, error) {
	if f.cfg.Mover == nil {
		return nil, api.Errorf(api.KindUnsupported, "this node has no archive from which another node could resume it (daemon.layer-archive)")
	}
	if s.Owner != f.cfg.Owner {
		return nil, api.Errorf(api.KindUnsupported, "an earlier run of this node left it")
	}
	if err := f.worksFor(ctx, s); err != nil {
		return nil, err
	}
	needs, err := f.cfg.Mover.Needs(ctx, s.ID)
	return append(needs, f.archive()), err
}

// archive is what Restores has of the archive of this node.
func (f *Fleet) archive() string {
	sum := sha256.Sum256([]byte(f.cfg.Archive))
	return api.InArchive + hex.EncodeToString(sum[:8])
}

// targets returns the nodes that can continue a sandbox of this one, or why there is none.
func (f *Fleet) targets(ctx context.Context, s api.Sandbox, needs []string) ([]store.Node, error) {
	nodes, err := f.all(ctx, false)
	if err != nil {
		return nil, err
	}
	var fit []placement.Node
	var misfits []string
	for _, n := range nodes {
		if n.ID == f.cfg.Node || n.State != api.NodeReady || gone(n) {
			continue
		}
		p := placed(n)
		free, missing := f.placer.Free(p), lacks(n, needs)
		switch {
		case len(n.Capacity.Restores) == 0:
			misfits = append(misfits, fmt.Sprintf("%s has no archive, or has just started", n.Name))
		case missing != "":
			misfits = append(misfits, n.Name+" "+missing)
		case n.Capacity.DiskFull:
			misfits = append(misfits, n.Name+" has a full disk")
		case (s.State != api.SandboxPaused || s.Moving) && free < s.Limits.MemoryBytes:
			misfits = append(misfits, fmt.Sprintf("%s has %d MiB of memory free, %d MiB are needed", n.Name, max(free, 0)>>20, s.Limits.MemoryBytes>>20))
		default:
			fit = append(fit, p)
		}
	}
	switch {
	case len(fit) == 0 && misfits == nil:
		return nil, errNoNode()
	case len(fit) == 0:
		return nil, api.Errorf(api.KindUnavailable, "no other node can take it: %s", strings.Join(misfits, "; "))
	}
	var out []store.Node
	for _, p := range fit {
		i := slices.IndexFunc(nodes, func(n store.Node) bool { return n.ID == p.ID })
		out = append(out, nodes[i])
	}
	return out, nil
}

// lacks says what keeps a node from restoring what needs lists; empty for nothing.
func lacks(n store.Node, needs []string) string {
	for _, need := range needs {
		switch {
		case slices.Contains(n.Capacity.Restores, need):
		case strings.HasPrefix(need, api.InArchive):
			return "has another archive (daemon.layer-archive)"
		case strings.HasPrefix(need, api.HostPrograms):
			return "has other files in its template host: sandboxes move if their machines have the same files below /usr, or if they are of an image"
		default:
			return "has another build of Hortus, or another processor"
		}
	}
	return ""
}

// order puts nodes in the order of placement, and counts what is needed for the first one.
func (f *Fleet) order(nodes []store.Node, need placement.Need) (out []store.Node) {
	var all []placement.Node
	for _, n := range nodes {
		all = append(all, placed(n))
	}
	for _, p := range f.placer.Place(all, need) {
		i := slices.IndexFunc(nodes, func(n store.Node) bool { return n.ID == p.ID })
		out = append(out, nodes[i])
	}
	return out
}

// worksFor returns the task that a sandbox stays for; nil if there is none.
func (f *Fleet) worksFor(ctx context.Context, s api.Sandbox) error {
	if s.Task == "" {
		return nil
	}
	t, err := f.cfg.Rows.Task(ctx, s.Task)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		return nil
	case err != nil:
		return err
	case t.State != api.TaskDone:
		return api.Errorf(api.KindUnsupported, "it works for task %s, and stays until that ends", t.ID)
	case t.Session != "":
		return api.Errorf(api.KindUnsupported, "it waits for the next turn of session %s", t.Session)
	}
	return nil
}

// moveOne moves one sandbox.
func (f *Fleet) moveOne(ctx context.Context, s api.Sandbox) {
	id := s.ID
	if !f.moves.start(id) {
		return
	}
	var to store.Node
	needs, err := f.needs(ctx, s)
	if err != nil { // it has changed since it was looked at
		f.moves.set(id, func(x *move) { x.State, x.Reason = admin.MoveRefused, err.Error() })
		return
	}
	row, since, err := f.cfg.Mover.Move(ctx, id, f.leaving.Load, func(ctx context.Context, row api.Sandbox) error {
		nodes, err := f.targets(ctx, row, needs) // they may have changed since
		if err != nil {
			return err
		}
		for _, n := range f.order(nodes, placement.Need{Memory: row.Limits.MemoryBytes, Isolation: row.Isolation, Template: row.Template}) {
			to = n
			if err = f.cfg.Rows.MoveSandbox(ctx, row, n.Owner); api.KindOf(err) != api.KindConflict {
				return err
			}
		}
		return err
	})
	if err != nil {
		reason := err.Error()
		if row.State == api.SandboxPaused && row.Moving {
			reason += "; it is paused, and continues on the node that takes it over"
		}
		f.cfg.Logger.Warn("a sandbox was not moved to another node", "sandbox", id, "reason", reason)
		f.moves.set(id, func(x *move) {
			x.State, x.Reason = admin.MoveRefused, reason
			x.again = time.Now().Add(min(moveAgain<<min(x.failures, 10), moveAgainMost))
			x.failures++
		})
		return
	}
	f.cfg.Moved(id, f.cfg.Name, to.Name)
	reason := ""
	if row.Moving {
		if err := f.resume(ctx, id); err != nil {
			reason = "it is paused there: " + err.Error()
		}
	}
	f.cfg.Logger.Info("moved a sandbox to another node", "sandbox", id, "to", to.Name, "resumed", row.Moving && reason == "", "away", time.Since(since))
	f.moves.set(id, func(x *move) {
		x.SandboxMove = admin.SandboxMove{Sandbox: id, State: admin.MoveDone, To: to.Name, Resumed: row.Moving && reason == "", Reason: reason}
		if !since.IsZero() {
			x.AwayMS = time.Since(since).Milliseconds()
		}
	})
}

// resume has a sandbox continue on the node that it was moved to, or on the one that replaces that.
func (f *Fleet) resume(ctx context.Context, id api.SandboxID) error {
	timed, cancel := context.WithTimeout(ctx, resumeWithin)
	defer cancel()
	for {
		err := f.cfg.Resume(timed, id)
		if kind := api.KindOf(err); timed.Err() == nil && (kind != api.KindUnavailable || api.AsError(err).Gone) || err == nil {
			return err
		}
		select {
		case <-time.After(resumeAgain):
			continue
		case <-timed.Done():
		}
		if ctx.Err() == nil {
			return err
		}
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeLate)
		defer cancel()
		return f.cfg.Resume(late, id)
	}
}

// Begin begins to report what this node can restore, and to look for sandboxes that were on their way here. From now on other nodes can be asked.
func (f *Fleet) Begin() {
	m := &f.moves
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun = true
	m.running.Go(func() {
		tick := time.NewTicker(arrivalsEvery)
		defer tick.Stop()
		for {
			if f.cfg.Mover != nil {
				all := append(f.cfg.Mover.Restores(m.ctx), f.archive())
				f.restores.Store(&all)
			}
			if err := f.Arrive(m.ctx); err != nil && m.ctx.Err() == nil {
				f.cfg.Logger.Warn("a sandbox that was on its way to another node was not resumed; retrying", "error", err)
			}
			select {
			case <-m.ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// arrivalsEvery is the time between two looks for what this node can restore, and for sandboxes that were moved here and that nobody has resumed: the node that moved them
// has ended.
const arrivalsEvery = 30 * time.Second

// Arrive resumes sandboxes of this node that were on their way when the daemon that moved them ended.
func (f *Fleet) Arrive(ctx context.Context) error {
	all, err := f.cfg.Rows.SandboxesOf(ctx, "")
	errs := []error{err}
	for _, s := range all {
		if s.Moving && s.State == api.SandboxPaused && s.Owner == f.cfg.Owner && !f.Draining() {
			f.cfg.Logger.Info("resuming a sandbox that was on its way to another node", "sandbox", s.ID)
			errs = append(errs, f.cfg.Resume(ctx, s.ID))
		}
	}
	return errors.Join(errs...)
}
