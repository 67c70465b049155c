package fleet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/peer"
	"hortus.dev/internal/server/placement"
	"hortus.dev/internal/store"
)

// Rows are those of the store that a node looks things up in.
type Rows interface {
	store.Nodes
	store.SharedValues
	// Now is the clock of the database.
	Now() time.Time
	Task(ctx context.Context, id api.TaskID) (api.Task, error)
	Workspace(ctx context.Context, id api.WorkspaceID) (api.Workspace, error)
	FindWorkspaceOf(ctx context.Context, account, prefix string) (api.WorkspaceID, error)
	NamedWorkspaces(ctx context.Context, account, name string) ([]api.Workspace, error)
	Snapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	SessionByKey(ctx context.Context, account, key string) (store.Session, error)
	Plan(ctx context.Context, id api.PlanID) (store.Plan, error)
	SandboxesOf(ctx context.Context, account string) ([]api.Sandbox, error)
	Volume(ctx context.Context, id api.VolumeID) (api.Volume, error)
	MoveSandbox(ctx context.Context, s api.Sandbox, to api.OwnerID) error
}

// Mover moves the sandboxes of this node; see manager.Mover.
type Mover interface {
	// Restores lists what the saved states must be of that this node can restore.
	Restores(ctx context.Context) []string
	// Needs returns what another node must be able to restore to continue a sandbox, or why the sandbox stays: KindConflict if the reason passes.
	Needs(ctx context.Context, id api.SandboxID) ([]string, error)
	Move(ctx context.Context, id api.SandboxID, leave func() bool, give func(context.Context, api.Sandbox) error) (row api.Sandbox, since time.Time, err error)
}

// Config is what a node is.
type Config struct {
	Node api.NodeID
	// Owner is this run of it.
	Owner api.OwnerID
	Name  string
	// Address is HOST:PORT at which other nodes reach it; empty if it has no listener for them.
	Address string
	Rows    Rows
	// Sandbox reads a sandbox, of this node or of another. Template returns the snapshot that a template of an account is; KindNotFound if it is none.
	Sandbox  func(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	Template func(ctx context.Context, account, name string) (api.Snapshot, error)
	// Capacity says what the node has now. Kill ends a sandbox of it.
	Capacity func(ctx context.Context) api.NodeCapacity
	Kill     func(ctx context.Context, id api.SandboxID) error
	// Mover moves sandboxes of this node; nil if it has no archive from which other nodes resume them.
	Mover Mover
	// Archive is the address of that archive: nodes with another one cannot resume what this one moves.
	Archive string
	// Reach asks another node whether it answers.
	Reach func(ctx context.Context, to forward.Node) error
	// Work is what the node works on; nil for nothing that another node could continue.
	Work Work
	// Resume resumes a sandbox on the node that has it. Moved stores in the events of a sandbox that it was moved to a node.
	Resume func(ctx context.Context, id api.SandboxID) error
	Moved  func(id api.SandboxID, from, to string)
	// Lost is called once if the node is removed, or another run of it has begun.
	Lost   func(error)
	Logger *slog.Logger
}

const (
	// renewEvery is how often a node renews its lease, Lease the silence after which others believe that it ended.
	renewEvery = 3 * time.Second
	Lease      = 10 * time.Second
	// renewTimeout bounds a renewal, so that the next one has another connection, and maxGap the time between two.
	renewTimeout, maxGap = 5 * time.Second, 2 * renewEvery
	// rememberFor is how long rows of nodes are remembered.
	rememberFor = time.Second
	// authorityName is the name of the shared value with the certificate authority.
	authorityName = "fleet authority"
)

// Fleet is the fleet as a node sees it. Its methods may be called from several goroutines.
type Fleet struct {
	cfg      Config
	identity *peer.Identity
	placer   *placement.Placer
	cancel   context.CancelFunc
	renewing sync.WaitGroup
	draining atomic.Bool
	leaving  atomic.Bool // the daemon stops
	moves    moves
	// restores is what Mover.Restores returned last; nil before.
	restores atomic.Pointer[[]string]

	// held is when the last renewal that succeeded began, and steady when the first of those without a gap did, in nanoseconds of this process's
	// clock since begun.
	begun        time.Time
	held, steady atomic.Int64

	mu     sync.Mutex
	nodes  []store.Node
	readAt time.Time
	owners map[api.OwnerID]api.NodeID
}

// Join stores the row of this node and begins to renew its lease. KindExists if another node has its name or its address.
func Join(ctx context.Context, cfg Config) (*Fleet, error) {
	begun := time.Now()
	others, err := cfg.Rows.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range others {
		if n.ID != cfg.Node && n.Address == cfg.Address && !gone(n) {
			return nil, api.Errorf(api.KindExists, "another node of the fleet, %s, has the address %s", n.Name, cfg.Address).
				WithHint("set fleet.address (HORTUS_FLEET_ADDRESS) to HOST:PORT at which other nodes reach this one; if %s has ended, wait %s", n.Name, Lease)
		}
	}
	err = cfg.Rows.PutNode(ctx, store.Node{ID: cfg.Node, Name: cfg.Name, Owner: cfg.Owner, Address: cfg.Address, State: api.NodeReady, Capacity: cfg.Capacity(ctx)})
	if api.KindOf(err) == api.KindExists {
		return nil, api.Errorf(api.KindExists, "another node of the fleet has the name %s", cfg.Name).
			WithHint("set fleet.name, or remove the other one if it is gone: hortus fleet rm %s", cfg.Name)
	}
	if err != nil {
		return nil, err
	}
	// readAt stays zero: who needs the rows of nodes reads them, with this one; Others knows of those that were there.
	f := &Fleet{cfg: cfg, placer: placement.New(nil), begun: begun, nodes: others, owners: map[api.OwnerID]api.NodeID{}}
	f.identity = peer.New(peer.Config{Node: cfg.Node, Authority: f.authority, Known: f.Known, Now: cfg.Rows.Now})
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	f.moves.ctx = ctx
	f.renewing.Go(func() { f.renew(ctx) })
	return f, nil
}

// capacity is what the node reports.
func (f *Fleet) capacity(ctx context.Context) api.NodeCapacity {
	c := f.cfg.Capacity(ctx)
	if r := f.restores.Load(); r != nil {
		c.Restores = *r
	}
	return c
}

// Name is the name of this node; "" for a nil Fleet.
func (f *Fleet) Name() string {
	if f == nil {
		return ""
	}
	return f.cfg.Name
}

// Identity is what the node shows to others.
func (f *Fleet) Identity() *peer.Identity { return f.identity }

// Close stops renewing the lease. The row stays, with what is left and as draining, so that no node places anything here.
func (f *Fleet) Close(ctx context.Context) error {
	f.cancel()
	f.renewing.Wait()
	f.moves.running.Wait()
	_, err := f.cfg.Rows.BeatNode(ctx, f.cfg.Node, f.cfg.Owner, f.capacity(ctx))
	if kind := api.KindOf(err); kind == api.KindConflict || kind == api.KindNotFound {
		return nil // it is another run's, or was removed
	}
	return errors.Join(err, f.Leave(ctx))
}

// Draining reports whether the node takes nothing new.
func (f *Fleet) Draining() bool { return f.draining.Load() }

// Leave has other nodes place nothing here from now on.
func (f *Fleet) Leave(ctx context.Context) error {
	f.leaving.Store(true)
	f.draining.Store(true)
	_, err := f.cfg.Rows.SetNodeState(ctx, f.cfg.Node, api.NodeDraining)
	if api.KindOf(err) == api.KindNotFound {
		return nil // it was removed
	}
	return err
}

// renew renews the lease until ctx ends.
func (f *Fleet) renew(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Since(f.begun)
		timed, cancel := context.WithTimeout(ctx, renewTimeout)
		state, err := f.cfg.Rows.BeatNode(timed, f.cfg.Node, f.cfg.Owner, f.capacity(ctx))
		cancel()
		if err == nil && state == api.NodeDraining {
			f.draining.Store(true)
			f.startMoves()
		}
		switch kind := api.KindOf(err); {
		case err == nil:
			f.renewed(began)
			_, _ = f.all(ctx, true) // for Others; who needs the rows sees the error
		case ctx.Err() != nil:
		case kind == api.KindConflict || kind == api.KindNotFound:
			f.cfg.Lost(err)
			return
		default:
			f.cfg.Logger.Warn("cannot renew the lease of this node; retrying", "error", err)
		}
	}
}

// Holds returns an error once this node could not renew its lease for so long that another one may take over what it has. It
// measures by the clock of this process, from before the last renewal that succeeded: so it stops before another one begins.
func (f *Fleet) Holds() error {
	silent := time.Since(f.begun) - time.Duration(f.held.Load())
	if silent < Lease {
		return nil
	}
	e := api.Errorf(api.KindUnavailable, "node %s has not reached the database for %s: another node may continue what it has", f.cfg.Name, silent.Round(time.Second)).
		WithHint("ask another node; this one serves again when it reaches the database, or stops if others took over")
	e.RetryAfterMS = renewEvery.Milliseconds()
	return e
}

// renewed notes that a renewal succeeded that began at a time since begun.
func (f *Fleet) renewed(began time.Duration) {
	if gap := began - time.Duration(f.held.Load()); gap > maxGap {
		f.steady.Store(int64(began))
	}
	f.held.Store(int64(began))
}

// Judges reports whether this node can tell a node that ended from one that could not reach the database: for as long as a lease it could reach it
// itself. When a database is back, all nodes seem silent.
func (f *Fleet) Judges() bool {
	now := time.Since(f.begun)
	return now-time.Duration(f.steady.Load()) > Lease && now-time.Duration(f.held.Load()) <= maxGap
}

// Others reports whether another node was in service at the last look.
func (f *Fleet) Others() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.nodes, func(n store.Node) bool { return n.ID != f.cfg.Node && n.Silence <= Lease })
}

// authority reads the certificate authority of the fleet.
func (f *Fleet) authority(ctx context.Context) ([]byte, error) {
	b, err := f.cfg.Rows.SharedValue(ctx, authorityName)
	if api.KindOf(err) == api.KindNotFound {
		err = api.Errorf(api.KindUnavailable, "the fleet has no certificate authority").WithHint("create it once: hortus fleet init")
	}
	return b, err
}

// all returns the rows of nodes, those of the last second unless fresh is set.
func (f *Fleet) all(ctx context.Context, fresh bool) ([]store.Node, error) {
	f.mu.Lock()
	nodes, at := f.nodes, f.readAt
	f.mu.Unlock()
	if !fresh && time.Since(at) < rememberFor {
		return nodes, nil
	}
	nodes, err := f.cfg.Rows.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes, f.readAt = nodes, time.Now()
	return nodes, nil
}

// Known returns an error for a node that has no row.
func (f *Fleet) Known(ctx context.Context, id api.NodeID) error {
	_, err := f.byID(ctx, id)
	return err
}

func (f *Fleet) byID(ctx context.Context, id api.NodeID) (n store.Node, err error) {
	for _, fresh := range []bool{false, true} { // one that has just joined is known
		nodes, err := f.all(ctx, fresh)
		if err != nil {
			return n, err
		}
		for _, n := range nodes {
			if n.ID == id {
				return n, nil
			}
		}
	}
	return n, api.Errorf(api.KindNotFound, "unknown node %.64q", id)
}
