package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/placement"
	"hortus.dev/internal/store"
)

// Locate implements forward.Directory.
func (f *Fleet) Locate(ctx context.Context, kind forward.Kind, id string, fresh bool) (at forward.Location, err error) {
	var owner api.OwnerID
	switch kind {
	case forward.Sandbox:
		var s api.Sandbox
		s, err = f.cfg.Sandbox(ctx, api.SandboxID(id))
		owner, at.Account, at.Ended, at.Moving = s.Owner, s.Account, s.State.Final(), s.Moving
	case forward.Snapshot:
		var s api.Snapshot
		s, err = f.cfg.Rows.Snapshot(ctx, api.SnapshotID(id))
		owner, at.Account, at.Ended = s.Owner, s.Account, s.State.Final()
	case forward.Workspace:
		var w api.Workspace
		w, err = f.cfg.Rows.Workspace(ctx, api.WorkspaceID(id))
		owner, at.Account, at.Ended = w.Owner, w.Account, w.State == api.WorkspaceRemoved
	case forward.Task:
		var t api.Task
		t, err = f.cfg.Rows.Task(ctx, api.TaskID(id))
		owner, at.Account, at.Ended = t.Owner, t.Account, t.State == api.TaskDone
	case forward.Session:
		var s store.Session
		s, err = f.cfg.Rows.SessionByKey(ctx, api.PrincipalOf(ctx).Account, id)
		owner, at.Account = s.Owner, s.Account
	case forward.Plan:
		var p store.Plan
		p, err = f.cfg.Rows.Plan(ctx, api.PlanID(id))
		owner, at.Account, at.Ended = p.Owner, p.Account, p.Done
	case forward.Volume:
		return f.locateVolume(ctx, api.VolumeID(id))
	case forward.Builds:
		return f.locateBuilds(ctx, id)
	case forward.Machine:
		return f.locateNode(ctx, id)
	}
	switch {
	case api.KindOf(err) == api.KindNotFound || err == nil && (owner == "" || owner == f.cfg.Owner):
		return forward.Location{Here: true, Account: at.Account, Moving: at.Moving}, nil
	case err != nil:
		return at, err
	}
	n, err := f.nodeOf(ctx, owner, fresh)
	if err != nil {
		return at, err
	}
	if kind == forward.Task || kind == forward.Session || kind == forward.Plan {
		at.Away = !at.Ended && n.Owner != owner && n.ID != "" // the owner is no current run, or what one has handed over
	}
	if n.ID == f.cfg.Node {
		return forward.Location{Here: true, Account: at.Account, Away: at.Away}, nil
	}
	at.Node, at.Silent = nodeAt(n), gone(n)
	return at, nil
}

// locateNode finds a node by its name or ID. The door of that node decides what the caller may do there.
func (f *Fleet) locateNode(ctx context.Context, name string) (forward.Location, error) {
	n, err := f.named(ctx, name)
	if api.KindOf(err) == api.KindNotFound || err == nil && (n.ID == f.cfg.Node || gone(n)) {
		return forward.Location{Here: true}, nil
	}
	return forward.Location{Node: nodeAt(n), Account: api.PrincipalOf(ctx).Account}, err
}

// locateVolume finds the node that has the files of a volume.
func (f *Fleet) locateVolume(ctx context.Context, id api.VolumeID) (forward.Location, error) {
	v, err := f.cfg.Rows.Volume(ctx, id)
	if api.KindOf(err) == api.KindNotFound || err == nil && (v.Node == "" || v.Node == f.cfg.Node) {
		return forward.Location{Here: true, Account: v.Account}, nil
	}
	if err != nil {
		return forward.Location{}, err
	}
	n, err := f.byID(ctx, v.Node)
	if api.KindOf(err) == api.KindNotFound {
		n, err = removed, nil
	}
	return forward.Location{Node: nodeAt(n), Silent: gone(n), Account: v.Account}, err
}

// locateBuilds finds the node that builds what an account builds over several requests. All nodes choose the same one, and few accounts change
// theirs when a node joins, drains or ends.
func (f *Fleet) locateBuilds(ctx context.Context, account string) (forward.Location, error) {
	nodes, err := f.all(ctx, false)
	if err != nil {
		return forward.Location{}, err
	}
	best, most := forward.Location{Here: true, Account: account}, [sha256.Size]byte{}
	for _, n := range nodes {
		if n.State != api.NodeReady || gone(n) {
			continue
		}
		if score := sha256.Sum256([]byte(string(n.ID) + " " + account)); bytes.Compare(score[:], most[:]) > 0 {
			most, best = score, forward.Location{Here: n.ID == f.cfg.Node, Node: nodeAt(n), Account: account}
		}
	}
	return best, nil
}

func nodeAt(n store.Node) forward.Node {
	return forward.Node{ID: n.ID, Name: n.Name, Address: n.Address}
}

// gone reports whether a node cannot be reached.
func gone(n store.Node) bool { return n.Silence > Lease || n.Address == "" }

// removed is the node of what a node had that was removed.
var removed = store.Node{Name: "that was removed"}

// nodeOf returns the node that a run is of. What a node had that was removed is on a node without an address.
func (f *Fleet) nodeOf(ctx context.Context, owner api.OwnerID, fresh bool) (store.Node, error) {
	f.mu.Lock()
	id, known := f.owners[owner]
	f.mu.Unlock()
	if known { // the node of a run never changes, but its address does
		nodes, err := f.all(ctx, fresh)
		if err != nil {
			return store.Node{}, err
		}
		for _, n := range nodes {
			if n.ID == id {
				return n, nil
			}
		}
	}
	n, err := f.cfg.Rows.NodeOfOwner(ctx, owner)
	if api.KindOf(err) == api.KindNotFound {
		return removed, nil
	}
	if err != nil {
		return n, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.owners) >= maxOwners {
		clear(f.owners)
	}
	f.owners[owner] = n.ID
	return n, nil
}

// NameOf returns the name of the node that a run is or was of; empty if there is no other node, or it is not known.
func (f *Fleet) NameOf(ctx context.Context, owner api.OwnerID) string {
	if nodes, err := f.all(ctx, false); err != nil || len(nodes) < 2 || owner == "" {
		return ""
	}
	n, err := f.nodeOf(ctx, owner, false)
	if err != nil || n.ID == "" {
		return ""
	}
	return n.Name
}

// maxOwners bounds the runs whose nodes are remembered.
const maxOwners = 10_000

// Choose lists the nodes for a new thing, the best first, and counts it for that one; see forward.Config.
func (f *Fleet) Choose(ctx context.Context, n forward.Need) ([]forward.Node, error) {
	self := forward.Node{ID: f.cfg.Node, Name: f.cfg.Name, Address: f.cfg.Address}
	if n.Node != "" && n.Node != f.cfg.Node {
		if at, err := f.locateNode(ctx, string(n.Node)); err != nil || !at.Here {
			return []forward.Node{at.Node}, err
		}
		n.Here = true // it says that the files are not there
	}
	if n.Here || n.Kind == forward.Build {
		return []forward.Node{self}, nil
	}
	if at, err := f.bound(ctx, n); err != nil || at != nil {
		return at, err
	}
	nodes, err := f.all(ctx, false)
	if err != nil {
		return nil, err
	}
	var ready []placement.Node
	for _, x := range nodes {
		here := x.ID == f.cfg.Node
		if x.State == api.NodeReady && (here && !f.Draining() || !here && !gone(x)) {
			ready = append(ready, placed(x))
		}
	}
	if len(ready) == 0 {
		e := api.Errorf(api.KindUnavailable, "all nodes of the fleet are draining: no node takes a new %s", n.Kind).WithHint("start a node, or see hortus fleet ls")
		e.RetryAfterMS = 5000
		return nil, e
	}
	var out []forward.Node
	for _, x := range f.placer.Place(ready, placement.Need{Memory: n.Memory, Isolation: n.Isolation, Template: n.Template}) {
		i := slices.IndexFunc(nodes, func(s store.Node) bool { return s.ID == x.ID })
		out = append(out, nodeAt(nodes[i]))
	}
	return out, nil
}

// Room reports whether a node other than this one seems to have capacity for what waits here; see forward.Config.
func (f *Fleet) Room(ctx context.Context, n forward.Need) bool {
	if n.Here {
		return false
	}
	if at, err := f.bound(ctx, n); err != nil || at != nil {
		return false
	}
	nodes, err := f.all(ctx, false)
	if err != nil {
		return false
	}
	for _, x := range nodes {
		c := x.Capacity
		if x.ID == f.cfg.Node || x.State != api.NodeReady || gone(x) || c.Full || c.DiskFull || n.Isolation != "" && !slices.Contains(c.Isolations, n.Isolation) {
			continue
		}
		if p := placed(x); f.placer.Free(p) >= n.Memory {
			f.placer.Place([]placement.Node{p}, placement.Need{Memory: n.Memory}) // it is counted there, so that not all that wait here go at once
			return true
		}
	}
	return false
}

// placed is a node as placement knows it.
func placed(n store.Node) placement.Node {
	c := n.Capacity
	return placement.Node{
		ID: n.ID, At: n.BeatAt, MemoryBudget: c.MemoryBudget, MemoryPromised: c.MemoryPromised, CPUs: float64(c.CPUs), Load: c.Load,
		Waiting: c.Waiting, Full: c.Full, DiskFull: c.DiskFull, Isolations: c.Isolations, Templates: c.Templates,
	}
}

// bound returns the only node that can make a thing: the one that has the workspace, the snapshot or the task that it is made from. It is nil if
// any node can.
func (f *Fleet) bound(ctx context.Context, n forward.Need) ([]forward.Node, error) {
	kind, id := forward.Kind(""), ""
	switch {
	case n.Workspace != "":
		w, err := f.workspace(ctx, n.Account, n.Workspace)
		if err != nil {
			return nil, err
		}
		kind, id = forward.Workspace, string(w)
	case n.Task != "":
		kind, id = forward.Task, string(n.Task)
	case n.Template != "" && n.Template != api.HostTemplate:
		s, err := f.cfg.Template(ctx, n.Account, n.Template)
		if err != nil && api.KindOf(err) != api.KindNotFound {
			return nil, err
		}
		kind, id = forward.Snapshot, string(s.ID)
	}
	if id == "" {
		return nil, nil
	}
	at, err := f.Locate(ctx, kind, id, false)
	switch {
	case err != nil:
		return nil, err
	case kind != forward.Snapshot && !at.Here && !api.PrincipalOf(ctx).May(at.Account):
		return nil, nil // any node says that it does not exist
	case at.Here:
		return []forward.Node{{ID: f.cfg.Node, Name: f.cfg.Name, Address: f.cfg.Address}}, nil
	case at.Silent && !at.Ended:
		e := api.Errorf(api.KindUnavailable, "%s %.64s is on node %s, which does not answer", kind, id, at.Node.Name).WithHint("it returns with its node: hortus fleet ls")
		e.RetryAfterMS = 5000
		return nil, e
	}
	return []forward.Node{at.Node}, nil
}

// workspace returns the ID of a workspace that a request names; empty for one that does not exist.
func (f *Fleet) workspace(ctx context.Context, account, name string) (api.WorkspaceID, error) {
	if id := api.WorkspaceID(name); id.Valid() {
		return id, nil
	}
	all, err := f.cfg.Rows.NamedWorkspaces(ctx, account, name)
	if err != nil || len(all) > 0 {
		return first(all), err
	}
	id, err := f.cfg.Rows.FindWorkspaceOf(ctx, account, name)
	if kind := api.KindOf(err); kind == api.KindNotFound || kind == api.KindInvalid {
		return "", nil // the handler says so
	}
	return id, err
}

func first(all []api.Workspace) api.WorkspaceID {
	if len(all) == 0 {
		return ""
	}
	return all[0].ID
}
