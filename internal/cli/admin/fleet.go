package admin

import (
	"fmt"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

// FleetCommand is "hortus fleet".
type FleetCommand struct {
	Init  fleetInitCmd   `cmd:"" help:"Create the certificate authority by which nodes trust each other, once."`
	Ls    fleetListCmd   `cmd:"" help:"List the nodes that share the database."`
	Drain fleetDrainCmd  `cmd:"" help:"Have a node take nothing new, until its daemon starts again."`
	Rm    fleetRemoveCmd `cmd:"" help:"Remove a node that drains and has nothing left, or that is gone."`
}

type fleetInitCmd struct{}

// Run creates the authority.
func (fleetInitCmd) Run(ctx app.Context, a *app.App, c *client.Client) error {
	f, err := c.InitFleet(ctx)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(f)
	}
	a.Note("the fleet has a certificate authority, encrypted in the database; its nodes:")
	if err := showNodes(a, f); err != nil {
		return err
	}
	for _, n := range f.Nodes {
		if n.Address == "" {
			a.Note("%s has no listener for other nodes: set fleet.listen (HORTUS_FLEET_LISTEN), for example to :7071, and start its daemon again", human.Sanitize(n.Name))
		}
	}
	return nil
}

type fleetListCmd struct{}

// Run lists the nodes.
func (fleetListCmd) Run(ctx app.Context, a *app.App, c *client.Client) error {
	f, err := c.FleetNodes(ctx)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(f)
	}
	if err := showNodes(a, f); err != nil {
		return err
	}
	if !f.Initialized && len(f.Nodes) > 1 {
		a.Note("these nodes cannot reach each other yet: hortus fleet init")
	}
	return nil
}

// showNodes prints a table of nodes. The one that answered has a star.
func showNodes(a *app.App, f admin.Fleet) error {
	w := a.Table()
	fmt.Fprintln(w, "NODE\tADDRESS\tSTATE\tSANDBOXES\tTASKS\tWAITING\tMEMORY\tLOAD\tSEEN\tVERSION")
	for _, n := range f.Nodes {
		name, address, c := human.Sanitize(n.Name), human.Sanitize(n.Address), n.Capacity
		if n.ID == f.Self {
			name += " *"
		}
		if address == "" {
			address = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s of %s\t%.1f of %d\t%s ago\t%s\n", name, address, stateOf(n), c.Sandboxes, c.Tasks, c.Waiting,
			human.Size(c.MemoryPromised), human.Size(c.MemoryBudget), c.Load, c.CPUs, (time.Duration(n.SilentMS) * time.Millisecond).Round(time.Second), human.Sanitize(c.Version))
	}
	return w.Flush()
}

// stateOf is the state of a node in a word: gone if its lease has ended.
func stateOf(n admin.FleetNode) string {
	if n.Gone {
		return "gone"
	}
	return human.Sanitize(string(n.State))
}

type fleetDrainCmd struct {
	Node  string        `arg:"" help:"Name or ID of the node."`
	Force bool          `help:"End the sandboxes of the node. Their memory is lost, and all files that are not in a workspace."`
	Wait  time.Duration `placeholder:"TIME" help:"Wait at most so long until nothing is left on the node (default: do not wait)."`
}

// drainLook is the time between two looks at a node that drains.
const drainLook = time.Second

// Run drains a node.
func (d *fleetDrainCmd) Run(ctx app.Context, a *app.App, c *client.Client) error {
	if d.Wait < 0 {
		return api.Errorf(api.KindInvalid, "--wait %s is negative", d.Wait)
	}
	out, err := c.DrainNode(ctx, d.Node, admin.DrainNode{Force: d.Force})
	if err != nil {
		return err
	}
	for end := time.Now().Add(d.Wait); d.Wait > 0 && !out.Node.Gone && (len(out.Sandboxes) > 0 || out.Node.Capacity.Tasks > 0) && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(drainLook):
		}
		next, err := c.DrainNode(ctx, d.Node, admin.DrainNode{Force: d.Force})
		if err != nil {
			return err
		}
		next.Ended += out.Ended
		out = next
	}
	if a.Flags.JSON {
		return a.JSON(out)
	}
	name := human.Sanitize(out.Node.Name)
	a.Note("%s takes nothing new", name)
	if out.Ended > 0 {
		a.Note("sandboxes that were ended: %d", out.Ended)
	}
	if n := len(out.Sandboxes); n > 0 {
		a.Note("sandboxes that stay until they end: %d", n)
		for _, id := range out.Sandboxes {
			if _, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(id))); err != nil {
				return err
			}
		}
	}
	switch t := out.Node.Capacity.Tasks; {
	case out.Node.Gone:
		a.Note("the node is gone: hortus fleet rm %s", name)
	case t > 0:
		a.Note("tasks that run there: %d", t)
	case len(out.Sandboxes) == 0:
		a.Note("nothing is left: stop its daemon, then: hortus fleet rm %s", name)
	}
	return nil
}

type fleetRemoveCmd struct {
	Node string `arg:"" help:"Name or ID of the node."`
}

// Run removes a node.
func (r *fleetRemoveCmd) Run(ctx app.Context, a *app.App, c *client.Client) error {
	n, err := c.RemoveNode(ctx, r.Node)
	if err != nil {
		return err
	}
	if a.Flags.JSON {
		return a.JSON(n)
	}
	a.Note("removed %s", human.Sanitize(n.Name))
	return nil
}
