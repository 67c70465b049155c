package admin

import (
	"fmt"
	"slices"
	"strings"
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
	Drain fleetDrainCmd  `cmd:"" help:"Have a node take nothing new, and move its sandboxes, tasks, sessions and plans to other nodes."`
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
	a.Note("the fleet has a certificate authority%s, encrypted in the database; its nodes:", map[bool]string{true: " already"}[f.Already])
	return showNodes(a, f)
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

// maxClockAhead is how far the clock of a node may be from that of the database without a warning.
const maxClockAhead = 5 * time.Second

// showNodes prints a table of nodes. The one that answered has a star.
func showNodes(a *app.App, f admin.Fleet) error {
	several := f.Initialized || len(f.Nodes) > 1
	w := a.Table()
	fmt.Fprintln(w, "NODE\tADDRESS\tSTATE\tSANDBOXES\tTASKS\tWAITING\tMEMORY\tLOAD\tSEEN\tVERSION")
	for _, n := range f.Nodes {
		name, address, state, c := human.Sanitize(n.Name), human.Sanitize(n.Address), stateOf(n), n.Capacity
		if n.ID == f.Self {
			name += " *"
		}
		if address == "" {
			address = "-"
			if several && !n.Gone && n.Unreached == "" { // this node: it does not ask itself
				state += ", unreachable"
			}
		}
		memory := human.Size(c.MemoryPromised)
		if c.MemoryBudget > 0 { // 0 if its sandboxes are not on this machine
			memory += " of " + human.Size(c.MemoryBudget)
		}
		has := fmt.Sprintf("%d\t%d\t%d\t%s\t%.1f of %d", c.Sandboxes, c.Tasks, c.Waiting, memory, c.Load, c.CPUs)
		if n.Gone { // others have taken over what it reported last
			has = "-\t-\t-\t-\t-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s ago\t%s\n", name, address, state, has, (time.Duration(n.SilentMS) * time.Millisecond).Round(time.Second), human.Sanitize(c.Version))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var noArchive []string
	archives := map[string][]string{} // the nodes that have each
	for _, n := range f.Nodes {
		if n.Capacity.NoArchive && several && !n.Gone {
			noArchive = append(noArchive, human.Sanitize(n.Name))
		}
		for _, one := range n.Capacity.Restores {
			if strings.HasPrefix(one, api.InArchive) && !n.Gone {
				archives[one] = append(archives[one], human.Sanitize(n.Name))
			}
		}
		switch {
		case n.Gone:
		case n.Address == "" && several:
			a.Note("%s has no listener for other nodes: they cannot reach what it has", human.Sanitize(n.Name))
			a.Note("  next: set fleet.listen (HORTUS_FLEET_LISTEN) of %s, for example to :7071, and start its daemon again", human.Sanitize(n.Name))
		case n.Unreached != "":
			a.Note("%s cannot be reached from here, at %s: %s", human.Sanitize(n.Name), human.Sanitize(n.Address), human.Sanitize(n.Unreached))
			a.Note("  next: start its daemon if that has ended; otherwise correct fleet.address (HORTUS_FLEET_ADDRESS) of %s, the name that it has here, or the firewall", human.Sanitize(n.Name))
		}
		if ahead := time.Duration(n.Capacity.ClockAheadMS) * time.Millisecond; ahead.Abs() > maxClockAhead && !n.Gone {
			where := "ahead of"
			if ahead < 0 {
				where = "behind"
			}
			a.Note("the clock of %s is %s %s that of the database", human.Sanitize(n.Name), human.Duration(ahead.Abs()), where)
			a.Note("  next: set the one that is wrong, for example with NTP. What nodes store goes by the database's clock; certificates of other servers, and the clock in sandboxes, by the node's own")
		}
	}
	if len(noArchive) > 0 {
		a.Note("without an archive: %s. Sandboxes there do not move to other nodes, and tasks on repositories, plans and sessions of a node that ends are lost", strings.Join(noArchive, ", "))
	}
	if len(archives) > 1 {
		var groups []string
		for _, names := range archives {
			groups = append(groups, "one of "+strings.Join(names, ", "))
		}
		slices.Sort(groups)
		a.Note("different archives: %s. Sandboxes do not move between these nodes, and work continues only where its files are", strings.Join(groups, "; "))
	}
	if len(noArchive) > 0 || len(archives) > 1 {
		a.Note("  next: set daemon.layer-archive (HORTUS_LAYER_ARCHIVE) to the same archive on all nodes, and start their daemons again")
	}
	return nil
}

// stateOf is the state of a node: gone if its lease has ended.
func stateOf(n admin.FleetNode) string {
	state := human.Sanitize(string(n.State))
	switch {
	case n.Gone:
		return "gone"
	case n.Unreached != "":
		return state + ", unreachable"
	case n.Capacity.DiskFull:
		return state + ", disk full"
	case n.Capacity.Full:
		return state + ", full"
	}
	return state
}

type fleetDrainCmd struct {
	Node  string        `arg:"" help:"Name or ID of the node."`
	Force bool          `help:"End the sandboxes that cannot be moved. Their memory is lost, and all files that are not in a workspace."`
	Wait  time.Duration `placeholder:"TIME" help:"Wait at most so long until nothing is left on the node, with the tasks, turns and plans that run. The exit code is 1 if something is left then (default: return, with exit code 0, when all that can go at once has gone)."`
}

// drainLook is the time between two looks at a node that drains.
const drainLook = 500 * time.Millisecond

// Run drains a node, and shows what becomes of what it has.
func (d *fleetDrainCmd) Run(ctx app.Context, a *app.App, c *client.Client) error {
	if d.Wait < 0 {
		return api.Errorf(api.KindInvalid, "--wait %s is negative", d.Wait)
	}
	shown, work, begun, ended := map[api.SandboxID]admin.SandboxMove{}, map[string]admin.WorkMove{}, false, 0
	var earlier map[string]bool // what had moved before this command
	for end := time.Now().Add(d.Wait); ; begun = true {
		out, err := c.DrainNode(ctx, d.Node, admin.DrainNode{Force: d.Force})
		if err != nil {
			return err
		}
		ended += out.Ended
		out.Ended = ended
		if !begun && out.Already {
			earlier = moved(out)
		}
		forget(&out, earlier)
		if !a.Flags.JSON {
			if !begun {
				begins := map[bool]string{false: "takes nothing new", true: "drains already"}[out.Already]
				a.Note("%s %s%s", human.Sanitize(out.Node.Name), begins, map[bool]string{true: "; moving what it has"}[out.Busy()])
			}
			if err := showMoves(a, shown, out.Moves); err != nil {
				return err
			}
			if err := showWork(a, work, out.Work); err != nil {
				return err
			}
		}
		left := !out.Node.Gone && (len(out.Sandboxes)+out.Node.Capacity.Tasks > 0 || out.Waits())
		if !out.Busy() && !(left && time.Now().Before(end)) {
			show := showDrained
			if a.Flags.JSON {
				show = func(a *app.App, out admin.DrainedNode) error { return a.JSON(out) }
			}
			if err := show(a, out); err != nil {
				return err
			}
			if d.Wait > 0 && remains(out) {
				return app.ExitCode(1)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(drainLook):
		}
	}
}

// moved returns the IDs of what has moved.
func moved(out admin.DrainedNode) map[string]bool {
	ids := map[string]bool{}
	for _, m := range out.Moves {
		ids[string(m.Sandbox)] = m.State == admin.MoveDone
	}
	for _, m := range out.Work {
		id, _ := workText(m)
		ids[id] = m.State == admin.MoveDone
	}
	return ids
}

// forget removes what has moved and is one of these IDs.
func forget(out *admin.DrainedNode, ids map[string]bool) {
	out.Moves = slices.DeleteFunc(out.Moves, func(m admin.SandboxMove) bool { return m.State == admin.MoveDone && ids[string(m.Sandbox)] })
	out.Work = slices.DeleteFunc(out.Work, func(m admin.WorkMove) bool {
		id, _ := workText(m)
		return m.State == admin.MoveDone && ids[id]
	})
}

// remains reports whether something is left on a node.
func remains(out admin.DrainedNode) bool {
	here := countWork(out.Work, admin.MovePending, admin.MoveRefused)
	return len(out.Sandboxes)+here.sessions+here.plans > 0 || !out.Node.Gone && out.Node.Capacity.Tasks > 0
}

// showMoves prints a line for each sandbox whose move is over or waits, unless it is shown.
func showMoves(a *app.App, shown map[api.SandboxID]admin.SandboxMove, moves []admin.SandboxMove) error {
	for _, m := range moves {
		if text := moveText(m); text != "" && shown[m.Sandbox] != m {
			if _, err := fmt.Fprintf(a.Env.Stdout, "%s  %s\n", human.Sanitize(string(m.Sandbox)), human.Sanitize(text)); err != nil {
				return err
			}
			shown[m.Sandbox] = m
		}
	}
	return nil
}

// showWork prints a line for each task, session and plan of which something new is known.
func showWork(a *app.App, shown map[string]admin.WorkMove, work []admin.WorkMove) error {
	for _, m := range work {
		id, text := workText(m)
		if text == "" || shown[id] == m {
			continue
		}
		if _, err := fmt.Fprintf(a.Env.Stdout, "%s  %s\n", human.Sanitize(id), human.Sanitize(text)); err != nil {
			return err
		}
		shown[id] = m
	}
	return nil
}

// workText says what becomes of a task, a session or a plan, and its ID; the text is empty if nothing is to be said yet.
func workText(m admin.WorkMove) (id, text string) {
	id, kind := string(m.Task), "task"
	switch {
	case m.Session != "":
		id, kind = string(m.Session), "session "+m.Key
	case m.Plan != "":
		id, kind = string(m.Plan), "plan"
	}
	switch {
	case m.State == admin.MoveDone:
		text = kind + " continues on " + m.To
	case m.State == admin.MoveRefused:
		text = kind + " stays: " + m.Reason
	case m.Reason != "":
		text = kind + " continues on another node after " + m.Reason
	}
	return id, text
}

// moveText says what becomes of a sandbox; empty if nothing is to be said yet.
func moveText(m admin.SandboxMove) string {
	switch {
	case m.State == admin.MoveDone && m.Resumed:
		return fmt.Sprintf("moved to %s, and runs there; stopped for %s", m.To, human.Milliseconds(m.AwayMS))
	case m.State == admin.MoveDone && m.Reason != "":
		return fmt.Sprintf("moved to %s, and does not run: %s", m.To, m.Reason)
	case m.State == admin.MoveDone:
		return fmt.Sprintf("moved to %s, paused as before", m.To)
	case m.State == admin.MoveRefused:
		return "stays: " + m.Reason
	case m.State == admin.MovePending && m.Reason != "":
		return "waits: " + m.Reason
	}
	return ""
}

// showDrained prints the summary of a drain.
func showDrained(a *app.App, out admin.DrainedNode) error {
	name := human.Sanitize(out.Node.Name)
	var away []time.Duration
	moved, stays := 0, map[api.SandboxID]bool{}
	for _, m := range out.Moves {
		switch {
		case m.State == admin.MoveDone:
			moved++
			if m.Resumed {
				away = append(away, time.Duration(m.AwayMS)*time.Millisecond)
			}
		case m.State == admin.MoveRefused || m.State == admin.MovePending:
			stays[m.Sandbox] = true
		}
	}
	gone, here := countWork(out.Work, admin.MoveDone), countWork(out.Work, admin.MovePending, admin.MoveRefused)
	if text := human.JoinNonEmpty("moved: ", append([]string{sandboxes(moved)}, gone.list()...)...); text != "" {
		a.Note("%s", text)
	}
	if n := len(away); n > 2 {
		slices.Sort(away)
		a.Note("stopped for %s in the median, %s at most", human.Duration(away[n/2]), human.Duration(away[n-1]))
	}
	if out.Ended > 0 {
		a.Note("ended: %s", sandboxes(out.Ended))
	}
	for _, id := range out.Sandboxes { // those that the node said nothing of
		if stays[id] {
			continue
		}
		if _, err := fmt.Fprintln(a.Env.Stdout, human.Sanitize(string(id))); err != nil {
			return err
		}
	}
	here.tasks = out.Node.Capacity.Tasks // with turns and items
	switch {
	case out.Node.Gone && len(out.Sandboxes) > 0:
		a.Note("the node is gone, with %s: hortus fleet rm %s", sandboxes(len(out.Sandboxes)), name)
	case out.Node.Gone:
		a.Note("the node is gone: hortus fleet rm %s", name)
	case !remains(out):
		a.Note("nothing is left on %s: stop its daemon, then: hortus fleet rm %s", name, name)
	default:
		a.Note("still on %s%s", name, human.JoinNonEmpty(": ", append([]string{sandboxes(len(out.Sandboxes))}, here.list()...)...))
		switch lacks := out.Node.Capacity.NoArchive; {
		case lacks && len(out.Sandboxes) > 0:
			a.Note("sandboxes stay until they end, because %s has no archive, or --force ends them; to move them, set daemon.layer-archive on all nodes, start their daemons again, and drain again", name)
		case len(out.Sandboxes) > 0 || out.Waits():
			a.Note("the node tries again while it drains; --wait 10m waits for that%s", map[bool]string{true: ", --force ends the sandboxes"}[len(out.Sandboxes) > 0])
		}
		stay := countWork(out.Work, admin.MoveRefused)
		if stay.tasks > 0 {
			a.Note("tasks that stay end on %s: --wait 2h waits for that; or cancel them (hortus task cancel ID) and start them again, on another node", name)
		}
		if stay.sessions+stay.plans > 0 {
			a.Note("sessions and plans that stay continue when the daemon of %s starts again; if it does not, another node continues what is stored of them", name)
		}
	}
	if !out.Node.Gone {
		a.Note("to end the drain, start the daemon of %s again", name)
	}
	return nil
}

// workCount counts tasks, sessions and plans.
type workCount struct{ tasks, sessions, plans int }

// countWork counts those in one of these states.
func countWork(work []admin.WorkMove, states ...admin.MoveState) (n workCount) {
	for _, m := range work {
		switch {
		case !slices.Contains(states, m.State):
		case m.Session != "":
			n.sessions++
		case m.Plan != "":
			n.plans++
		default:
			n.tasks++
		}
	}
	return n
}

func (n workCount) list() []string {
	return []string{human.Count(n.tasks, "task"), human.Count(n.sessions, "session"), human.Count(n.plans, "plan")}
}

// sandboxes counts sandboxes; it is empty for none.
func sandboxes(n int) string {
	if n > 1 {
		return fmt.Sprintf("%d sandboxes", n)
	}
	return human.Count(n, "sandbox")
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
