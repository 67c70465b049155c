package access

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// Nodes are the nodes that share the database of a daemon.
type Nodes interface {
	Init(ctx context.Context) (admin.Fleet, error)
	Nodes(ctx context.Context) (admin.Fleet, error)
	Drain(ctx context.Context, name string, req admin.DrainNode) (admin.DrainedNode, error)
	Remove(ctx context.Context, name string) (admin.FleetNode, error)
}

// Fleet guards the nodes: they are the operator's.
type Fleet struct{ nodes Nodes }

// NewFleet guards nodes; nil for a daemon whose rows are in a file of its own.
func NewFleet(nodes Nodes) *Fleet { return &Fleet{nodes} }

func (f *Fleet) allowed(ctx context.Context, what string) error {
	err := administrator(ctx, what)
	if err == nil && f.nodes == nil {
		err = api.Errorf(api.KindUnsupported, "this daemon is no node of a fleet: its rows are in a file of its data directory").
			WithHint("copy them to a Postgres database: hortus store migrate; then set store.url")
	}
	return err
}

// Init creates what nodes trust each other by.
func (f *Fleet) Init(ctx context.Context) (admin.Fleet, error) {
	return ifAllowed(f.allowed(ctx, "creating a fleet"), func() (admin.Fleet, error) { return f.nodes.Init(ctx) })
}

// Nodes lists the nodes.
func (f *Fleet) Nodes(ctx context.Context) (admin.Fleet, error) {
	return ifAllowed(f.allowed(ctx, "listing the nodes of the fleet"), func() (admin.Fleet, error) { return f.nodes.Nodes(ctx) })
}

// Drain has a node take nothing new.
func (f *Fleet) Drain(ctx context.Context, name string, req admin.DrainNode) (admin.DrainedNode, error) {
	return ifAllowed(f.allowed(ctx, "draining a node"), func() (admin.DrainedNode, error) { return f.nodes.Drain(ctx, name, req) })
}

// Remove removes a node.
func (f *Fleet) Remove(ctx context.Context, name string) (admin.FleetNode, error) {
	return ifAllowed(f.allowed(ctx, "removing a node"), func() (admin.FleetNode, error) { return f.nodes.Remove(ctx, name) })
}
