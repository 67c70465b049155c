package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/server/peer"
	"hortus.dev/internal/store"
)

// Init creates the certificate authority of the fleet, once, and returns the fleet.
func (f *Fleet) Init(ctx context.Context) (admin.Fleet, error) {
	_, err := f.cfg.Rows.SharedValue(ctx, authorityName)
	already := err == nil
	if api.KindOf(err) == api.KindNotFound {
		var authority []byte
		if authority, err = peer.NewAuthority(f.cfg.Rows.Now()); err == nil {
			_, err = f.cfg.Rows.ShareValue(ctx, authorityName, authority)
		}
	}
	if err != nil {
		return admin.Fleet{}, err
	}
	out, err := f.Nodes(ctx)
	out.Already = already
	return out, err
}

// reachTimeout bounds the question whether another node answers.
const reachTimeout = 5 * time.Second

// Nodes lists the nodes, and asks each whether it answers: a name that leads nowhere is found here, and not by the first request for something of that node.
func (f *Fleet) Nodes(ctx context.Context) (out admin.Fleet, err error) {
	_, err = f.cfg.Rows.SharedValue(ctx, authorityName)
	if out.Initialized = err == nil; err != nil && api.KindOf(err) != api.KindNotFound {
		return out, err
	}
	out.Self = f.cfg.Node
	nodes, err := f.all(ctx, true)
	out.Nodes = make([]admin.FleetNode, len(nodes))
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for i, n := range nodes {
		out.Nodes[i] = view(n)
		if !out.Initialized || n.ID == f.cfg.Node || gone(n) {
			continue
		}
		asked.Go(func() {
			if err := f.cfg.Reach(ctx, nodeAt(n)); err != nil {
				out.Nodes[i].Unreached = err.Error()
			}
		})
	}
	asked.Wait()
	return out, err
}

func view(n store.Node) admin.FleetNode {
	return admin.FleetNode{ID: n.ID, Name: n.Name, Address: n.Address, State: n.State, Gone: n.Silence > Lease, BeatAt: n.BeatAt, SilentMS: n.Silence.Milliseconds(), Capacity: n.Capacity}
}

// named returns the node with a name or an ID.
func (f *Fleet) named(ctx context.Context, name string) (n store.Node, err error) {
	nodes, err := f.all(ctx, true)
	if err != nil {
		return n, err
	}
	for _, n := range nodes {
		if n.Name == name || string(n.ID) == name {
			return n, nil
		}
	}
	return n, api.Errorf(api.KindNotFound, "unknown node %.64q", name).WithHint("hortus fleet ls lists the nodes")
}

// firstLook is how long an answer waits until work that can stop at once was handed over.
const firstLook = 3 * time.Second

// Drain has a node take nothing new. On the node itself its work and its sandboxes go to other nodes in the background from now on; force ends sandboxes that cannot be moved.
// The answer says how far that is.
func (f *Fleet) Drain(ctx context.Context, name string, req admin.DrainNode) (out admin.DrainedNode, err error) {
	n, err := f.named(ctx, name)
	if err == nil {
		out.Already = n.State == api.NodeDraining
		n, err = f.cfg.Rows.SetNodeState(ctx, n.ID, api.NodeDraining)
	}
	if err != nil {
		return out, err
	}
	here := n.ID == f.cfg.Node
	if here {
		f.draining.Store(true)
	}
	if _, err := f.all(ctx, true); err != nil { // this node's door knows it at once
		return out, err
	}
	if here {
		f.awaitLook(ctx, f.startMoves())
	}
	all, err := f.sandboxesOn(ctx, n.ID)
	errs := []error{err}
	out.Sandboxes = []api.SandboxID{}
	for _, s := range all {
		if here {
			state := f.judge(ctx, s).State
			if state == admin.MoveDone {
				continue // it has gone since it was listed
			}
			if state == admin.MoveRefused && req.Force {
				err := f.cfg.Kill(ctx, s.ID)
				if err == nil || api.KindOf(err) == api.KindNotFound {
					f.moves.drop(s.ID)
					out.Ended++
					continue
				}
				errs = append(errs, err)
			}
		}
		out.Sandboxes = append(out.Sandboxes, s.ID)
	}
	if here {
		out.Moves = f.moves.list(all)
		out.Work, err = f.listWork(ctx)
		errs = append(errs, err)
	}
	out.Node = view(n)
	return out, errors.Join(errs...)
}

// awaitLook waits for the first look, for a moment.
func (f *Fleet) awaitLook(ctx context.Context, looked <-chan struct{}) {
	if looked == nil {
		return
	}
	late := time.NewTimer(firstLook)
	defer late.Stop()
	select {
	case <-looked:
	case <-late.C:
	case <-ctx.Done():
	}
}

// sandboxesOn lists the sandboxes of a node that have not ended.
func (f *Fleet) sandboxesOn(ctx context.Context, node api.NodeID) (out []api.Sandbox, err error) {
	all, err := f.cfg.Rows.SandboxesOf(ctx, "")
	for _, s := range all {
		if s.Owner == "" {
			continue
		}
		at, nerr := f.nodeOf(ctx, s.Owner, false)
		if nerr != nil {
			return out, nerr
		}
		if at.ID == node {
			out = append(out, s)
		}
	}
	return out, err
}

// Remove removes the row of a node that drains or is gone.
func (f *Fleet) Remove(ctx context.Context, name string) (admin.FleetNode, error) {
	n, err := f.named(ctx, name)
	var left []api.Sandbox
	if err == nil {
		left, err = f.sandboxesOn(ctx, n.ID) // its own report may be seconds old
	}
	switch {
	case err != nil:
	case n.ID == f.cfg.Node:
		err = api.Errorf(api.KindConflict, "%s is the node that answers: it cannot remove itself", n.Name).WithHint("ask another node, or stop its daemon first")
	case n.Silence <= Lease && n.State != api.NodeDraining:
		err = api.Errorf(api.KindConflict, "node %s is in service", n.Name).WithHint("drain it first: hortus fleet drain %s", n.Name)
	case n.Silence <= Lease && len(left)+n.Capacity.Tasks > 0:
		err = api.Errorf(api.KindConflict, "node %s still has %d sandboxes and %d tasks", n.Name, len(left), n.Capacity.Tasks).
			WithHint("wait for them, or end its sandboxes: hortus fleet drain --force %s", n.Name)
	default:
		err = f.cfg.Rows.RemoveNode(ctx, n.ID)
	}
	return view(n), err
}
