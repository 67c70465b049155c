package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/daemon/fleet"
	"hortus.dev/internal/daemon/takeover"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/ownership"
)

// inherited reports which of the owners that have ended this one takes over when it starts: the earlier runs of its data directory,
// but for those whose work other nodes of a fleet continue.
func (s *System) inherited(ctx context.Context, others *ownership.Others) (func(api.OwnerID) bool, error) {
	if s.node == "" {
		return others.Ended, nil
	}
	if err := s.claimNode(ctx, others); err != nil {
		return nil, err
	}
	// No node is found silent here: after an outage of the database, all seem to be.
	all, err := s.db.InheritOwners(ctx, s.owner.Owner.ID, noLease, nil)
	if err != nil {
		return nil, err
	}
	mine := map[api.OwnerID]bool{}
	for _, i := range all {
		mine[i.Owner] = i.Node == s.node || i.Node == "" // a run from before there were nodes has none
	}
	s.started = func(id api.OwnerID) bool { return mine[id] }
	return s.started, nil
}

// claimNode has the row of this node, if there is one, be of this run while it starts, and renews its lease until it joins. Otherwise nobody
// would see that it died meanwhile, with what it took over from the earlier run.
func (s *System) claimNode(ctx context.Context, others *ownership.Others) error {
	n, err := s.db.Node(ctx, s.node)
	if err == nil {
		err = s.awaitCopy(ctx, n, slices.Concat(others.Alive, others.Silent))
	}
	if api.KindOf(err) == api.KindNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	n.Owner, n.State = s.owner.Owner.ID, api.NodeDraining // nothing is placed here yet
	if err := s.db.PutNode(ctx, n); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(fleet.Lease / 4)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := s.db.BeatNode(ctx, n.ID, n.Owner, n.Capacity); err != nil && ctx.Err() == nil {
				s.log.Warn("cannot renew the lease of this node; retrying", "error", err)
			}
		}
	})
	s.joining = sync.OnceFunc(func() {
		cancel()
		renewing.Wait()
	})
	s.onClose(func(context.Context) error { s.joining(); return nil })
	return nil
}

// awaitCopy waits until the lease of this node has ended if a run has it that had another host or another directory, as after a move of the disk. KindConflict if that run
// renews the lease: it uses a copy of this data directory, and what it has is not here.
func (s *System) awaitCopy(ctx context.Context, n store.Node, alive []store.Owner) error {
	i := slices.IndexFunc(alive, func(o store.Owner) bool { return o.ID == n.Owner })
	if i < 0 {
		return nil
	}
	run := alive[i]
	s.log.Info("waiting until the lease of the earlier run of this node ends", "host", run.Host, "directory", filepath.Dir(run.LockPath))
	tick := time.NewTicker(fleet.Lease / 20)
	defer tick.Stop()
	for was := n.BeatAt; n.Silence <= fleet.Lease; {
		if n.Owner != run.ID || !n.BeatAt.Equal(was) {
			return api.Errorf(api.KindConflict, "data directory %s is a copy of that of node %s, which a daemon on host %s uses (%s)", s.dir, n.Name, run.Host, filepath.Dir(run.LockPath)).
				WithHint("start this daemon with an empty --data-dir and the same store.key-file: it becomes a node of its own. To move the node, stop the other daemon first")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		var err error
		if n, err = s.db.Node(ctx, n.ID); err != nil {
			return err
		}
	}
	return nil
}

// noLease is a lease that does not end.
const noLease = 100 * 365 * 24 * time.Hour

// openTakeover begins to continue what nodes leave that fall silent. Without a fleet it does nothing.
func (s *System) openTakeover(context.Context) error {
	if s.node == "" {
		return nil
	}
	s.fleet.Begin()
	t := takeover.Start(takeover.Config{
		Rows: s.db, Heir: s.owner.Owner.ID, Started: s.started, Judges: s.fleet.Judges, Lease: fleet.Lease, Full: func() bool { return s.gate.State().Full }, Logger: s.log,
		Steps: []takeover.Step{
			{What: "sandboxes, which are lost", Do: func(ctx context.Context, e takeover.Estate) (int, error) {
				return s.sandboxes.Recoverer.Lose(ctx, e.Gone, e.Why)
			}},
			{What: "sandboxes that were on their way to another node", Do: func(ctx context.Context, _ takeover.Estate) (int, error) {
				return 0, s.fleet.Arrive(ctx)
			}},
			{What: "repositories", Do: func(ctx context.Context, e takeover.Estate) (int, error) { return s.connected.Recover(ctx, e.Gone) }},
			{What: "commits of plans", Do: func(ctx context.Context, e takeover.Estate) (int, error) { return s.plans.Bring(ctx, e.Gone) }},
			{What: "tasks", Do: func(ctx context.Context, e takeover.Estate) (int, error) {
				n, err := s.tasks.Recover(ctx, e.Gone)
				s.tasks.Resume(ctx)
				return n, err
			}},
			{What: "sessions", Do: func(ctx context.Context, e takeover.Estate) (int, error) { return s.sessions.TakeOver(ctx, e.Gone) }},
			{What: "plans", Do: func(ctx context.Context, e takeover.Estate) (int, error) { return s.plans.Recover(ctx, e.Gone) }},
			{What: "webhooks of forges", Do: func(ctx context.Context, _ takeover.Estate) (int, error) { return 0, s.hooks.Recover(ctx) }},
		},
	})
	s.onClose(t.Close)
	return nil
}

// leader asks whether this daemon does something for all nodes; nil if there are no others.
func (s *System) leader(what string) func(context.Context) (bool, error) {
	if s.node == "" {
		return nil
	}
	return func(ctx context.Context) (bool, error) { return s.db.Lead(ctx, what, s.owner.Owner.ID, fleet.Lease) }
}

// continued returns which other node continues the session or the task of a workspace; empty if none does.
func (s *System) continued(ctx context.Context, w api.Workspace) string {
	var owner api.OwnerID
	if w.Session != "" {
		if r, err := s.db.Session(ctx, w.Session); err == nil && !r.Closed {
			owner = r.Owner
		}
	} else if w.Task != "" {
		if t, err := s.db.Task(ctx, w.Task); err == nil && t.State != api.TaskDone {
			owner = t.Owner
		}
	}
	if owner == "" || owner == s.owner.Owner.ID {
		return ""
	}
	if node := s.elsewhere(ctx, owner); node != "" {
		return "node " + node
	}
	if given, err := s.db.HandedOver(ctx, owner); err == nil && given {
		return "another node"
	}
	return ""
}

// elsewhere returns the name of the other node that an owner is or was a run of; empty if it is none's, or not known.
func (s *System) elsewhere(ctx context.Context, owner api.OwnerID) string {
	if s.node == "" {
		return ""
	}
	n, err := s.db.NodeOfOwner(ctx, owner)
	if err != nil || n.ID == s.node {
		return ""
	}
	return n.Name
}
