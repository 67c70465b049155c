package http

import (
	"context"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// Fleet is what the server asks of the nodes that share the database.
type Fleet interface {
	Init(ctx context.Context) (admin.Fleet, error)
	Nodes(ctx context.Context) (admin.Fleet, error)
	Drain(ctx context.Context, name string, req admin.DrainNode) (admin.DrainedNode, error)
	Remove(ctx context.Context, name string) (admin.FleetNode, error)
}

// fleet has the handlers of nodes.
type fleet struct{ Fleet Fleet }

func (d fleet) fleetRoutes() []Route {
	name := func(r *http.Request) (string, error) { return r.PathValue("name"), nil }
	return []Route{{
		Method: "POST", Pattern: "/v1/fleet/init", Name: "initFleet", Role: api.RoleAdmin,
		Doc:     "Create the certificate authority by which the nodes that share the database trust each other, once. The answer is the fleet.",
		Out:     admin.Fleet{},
		Handler: give(func(r *http.Request) (admin.Fleet, error) { return d.Fleet.Init(r.Context()) }),
	}, {
		Method: "GET", Pattern: "/v1/fleet/nodes", Name: "fleetNodes", Role: api.RoleAdmin,
		Doc:     "List the nodes that share the database, by name, with what each had when it renewed its lease.",
		Out:     admin.Fleet{},
		Handler: give(func(r *http.Request) (admin.Fleet, error) { return d.Fleet.Nodes(r.Context()) }),
	}, {
		Method: "POST", Pattern: "/v1/fleet/nodes/{name}/drain", Name: "drainNode", Role: api.RoleAdmin,
		Doc: "Have a node take nothing new, until its daemon starts again. The answer lists the sandboxes that are still there; with force they are ended, by the node itself.",
		In:  admin.DrainNode{}, Optional: true, Out: admin.DrainedNode{},
		Handler: change(http.StatusOK, decodeAny, d.Fleet, name, Fleet.Drain),
	}, {
		Method: "DELETE", Pattern: "/v1/fleet/nodes/{name}", Name: "removeNode", Role: api.RoleAdmin,
		Doc:     "Remove a node that drains and has nothing left, or that is gone. What is on its disk cannot be reached any more.",
		Out:     admin.FleetNode{},
		Handler: on(d.Fleet, name, Fleet.Remove),
	}}
}
