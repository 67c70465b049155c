package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
)

// TestShowNodes: the table says which node answers, what is gone or cannot be reached and why, and memory without a maximum if the node has none.
func TestShowNodes(t *testing.T) {
	var out, err bytes.Buffer
	a := &app.App{Flags: &app.Flags{}, Env: app.Env{Stdout: &out, Stderr: &err}}
	const gib = 1 << 30
	f := admin.Fleet{Initialized: true, Self: "na", Nodes: []admin.FleetNode{
		{ID: "na", Name: "a", Address: "a:7071", State: api.NodeReady, Capacity: api.NodeCapacity{MemoryPromised: gib, MemoryBudget: 8 * gib, ClockAheadMS: 5000, Restores: []string{"archive-1", "host-1"}}},
		{ID: "nb", Name: "b", Address: "b:7071", State: api.NodeReady, Unreached: "no such host", Capacity: api.NodeCapacity{MemoryPromised: gib, Restores: []string{"archive-2"}}},
		{ID: "nd", Name: "d", Address: "d:7071", State: api.NodeReady, Capacity: api.NodeCapacity{DiskFull: true, ClockAheadMS: -3_600_000, Restores: []string{"archive-1"}}},
		{ID: "ng", Name: "g", Address: "g:7071", State: api.NodeReady, Capacity: api.NodeCapacity{Full: true, Sandboxes: 4}},
		{ID: "nc", Name: "c", State: api.NodeDraining, Gone: true, Capacity: api.NodeCapacity{Sandboxes: 3, NoArchive: true, Restores: []string{"archive-3"}}},
		{ID: "ne", Name: "e", State: api.NodeReady, Unreached: "missing address", Capacity: api.NodeCapacity{NoArchive: true}},
		{ID: "nf", Name: "f", State: api.NodeReady, Capacity: api.NodeCapacity{NoArchive: true}},
	}}
	if err := showNodes(a, f); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`^a \* +a:7071 +ready +0 +0 +0 +1 GiB of 8 GiB `, `^b +b:7071 +ready, unreachable +0 +0 +0 +1 GiB  +0.0 of 0`, `^d +d:7071 +ready, disk full +0`, `^g +g:7071 +ready, full +4`, `^c +- +gone +- +- +- +- +- +0s ago`, `^e +- +ready, unreachable +0`, `^f +- +ready, unreachable +0`} {
		if !regexp.MustCompile("(?m)" + line).Match(out.Bytes()) {
			t.Errorf("no line %s in\n%s", line, &out)
		}
	}
	for _, line := range []string{`^b cannot be reached from here, at b:7071: no such host$`, `HORTUS_FLEET_ADDRESS`, `^the clock of d is 1h0m0s behind that of the database$`,
		`^e has no listener for other nodes: they cannot reach what it has$`, `^f has no listener`, `^  next: set fleet.listen \(HORTUS_FLEET_LISTEN\) of f, for example`, `^without an archive: e, f\. Sandboxes there`, `^different archives: one of a, d; one of b\. Sandboxes do not move`, `HORTUS_LAYER_ARCHIVE`} {
		if !regexp.MustCompile("(?m)" + line).Match(err.Bytes()) {
			t.Errorf("no line %s in\n%s", line, &err)
		}
	}
	for _, text := range []string{"the clock of a", "c has no listener", "e cannot be reached"} {
		if strings.Contains(err.String(), text) {
			t.Errorf("%s:\n%s", text, &err)
		}
	}

	// Nodes with the same archive, which a node that is gone does not have.
	err.Reset()
	if serr := showNodes(a, admin.Fleet{Initialized: true, Self: "na", Nodes: []admin.FleetNode{f.Nodes[0], f.Nodes[2], f.Nodes[4]}}); serr != nil || strings.Contains(err.String(), "archive") {
		t.Errorf("the same archive: %v\n%s", serr, &err)
	}

	// A daemon alone, with rows in Postgres, needs neither.
	err.Reset()
	if serr := showNodes(a, admin.Fleet{Self: "nf", Nodes: f.Nodes[6:]}); serr != nil || err.Len() > 0 {
		t.Errorf("one node: %v\n%s", serr, &err)
	}
}

// TestDrain: what a person reads while a node drains: each thing once, and again when something new is known of it.
func TestDrain(t *testing.T) {
	work := func(state admin.MoveState, to, reason string, m admin.WorkMove) admin.WorkMove {
		m.State, m.To, m.Reason = state, to, reason
		return m
	}
	talk, plan, task, best := admin.WorkMove{Session: "s1", Key: "talk"}, admin.WorkMove{Plan: "p1"}, admin.WorkMove{Task: "t1"}, admin.WorkMove{Task: "t2"}
	stays, program := work(admin.MoveRefused, "", "it has several candidates", best), work(admin.MoveRefused, "", "its agent is a program", admin.WorkMove{Session: "s2", Key: "codex"})
	answers := []admin.DrainedNode{
		{Work: []admin.WorkMove{work(admin.MovePending, "", "", talk), work(admin.MovePending, "", "what runs now (item a)", plan), work(admin.MovePending, "", "the end of a round", task), stays, program}},
		{Work: []admin.WorkMove{work(admin.MoveDone, "b", "", talk), work(admin.MovePending, "", "what runs now (item a)", plan), work(admin.MoveDone, "c", "", task), stays, program}},
		{Work: []admin.WorkMove{work(admin.MoveDone, "b", "", talk), work(admin.MoveDone, "b", "", plan), work(admin.MoveDone, "c", "", task), stays, program}},
	}
	for i := range answers {
		answers[i].Node = admin.FleetNode{Name: "a", Capacity: api.NodeCapacity{Tasks: 3 - i}}
	}
	answers = append(answers, answers[2])
	answers[3].Node.Capacity.Tasks, answers[3].Work = 0, answers[3].Work[:3]
	for _, tt := range []struct {
		wait   time.Duration
		want   string
		looked int
	}{
		{0, "a takes nothing new; moving what it has\np1  plan continues on another node after what runs now (item a)\nt1  task continues on another node after the end of a round\n" +
			"t2  task stays: it has several candidates\ns2  session codex stays: its agent is a program\ns1  session talk continues on b\nt1  task continues on c\nmoved: 1 task, 1 session\nstill on a: 2 tasks, 1 session, 1 plan\n" +
			"the node tries again while it drains; --wait 10m waits for that\n" +
			"tasks that stay end on a: --wait 2h waits for that; or cancel them (hortus task cancel ID) and start them again, on another node\n" +
			"sessions and plans that stay continue when the daemon of a starts again; if it does not, another node continues what is stored of them\nto end the drain, start the daemon of a again\n", 2},
		{time.Hour, "a takes nothing new; moving what it has\np1  plan continues on another node after what runs now (item a)\nt1  task continues on another node after the end of a round\n" +
			"t2  task stays: it has several candidates\ns2  session codex stays: its agent is a program\ns1  session talk continues on b\nt1  task continues on c\np1  plan continues on b\nmoved: 1 task, 1 session, 1 plan\n" +
			"nothing is left on a: stop its daemon, then: hortus fleet rm a\nto end the drain, start the daemon of a again\n", 4},
	} {
		out, looked, err := drained(t, tt.wait, answers)
		if err != nil || out != tt.want || looked != tt.looked {
			t.Errorf("--wait %s: %v, %d looks:\n%s\nwant:\n%s", tt.wait, err, looked, out, tt.want)
		}
	}
}

// drained drains node a, whose daemon gives these answers, one at each look and then the last one. It returns what a person reads.
func drained(t *testing.T, wait time.Duration, answers []admin.DrainedNode) (text string, looked int, err error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(answers[min(looked, len(answers)-1)])
		looked++
	}))
	defer srv.Close()
	c, err := client.Remote(srv.URL, "key")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out bytes.Buffer
	a := &app.App{Flags: &app.Flags{}, Env: app.Env{Stdout: &out, Stderr: &out}}
	err = (&fleetDrainCmd{Node: "a", Wait: wait}).Run(app.Context{Context: t.Context()}, a, c)
	return out.String(), looked, err
}

// TestDrainAgain: a command that drains a node again leaves out what had moved before it, promises no retry that cannot help, and fails if something is left when
// its wait is over.
func TestDrainAgain(t *testing.T) {
	here := admin.SandboxMove{Sandbox: "s2", State: admin.MoveRefused, Reason: "this node has no archive"}
	was := admin.DrainedNode{Already: true, Node: admin.FleetNode{Name: "a", Capacity: api.NodeCapacity{NoArchive: true}}, Sandboxes: []api.SandboxID{"s2"},
		Moves: []admin.SandboxMove{{Sandbox: "s1", State: admin.MoveDone, To: "b", Resumed: true}, here},
		Work:  []admin.WorkMove{{Task: "t1", State: admin.MoveDone, To: "b"}, {Task: "t2", State: admin.MovePending}}}
	then := was
	then.Work = []admin.WorkMove{was.Work[0], {Task: "t2", State: admin.MoveDone, To: "c"}}
	const text = "a drains already; moving what it has\ns2  stays: this node has no archive\nt2  task continues on c\nmoved: 1 task\nstill on a: 1 sandbox\n" +
		"sandboxes stay until they end, because a has no archive, or --force ends them; to move them, set daemon.layer-archive on all nodes, start their daemons again, and drain again\n" +
		"to end the drain, start the daemon of a again\n"
	empty := admin.DrainedNode{Already: true, Node: admin.FleetNode{Name: "a"}, Sandboxes: []api.SandboxID{}, Moves: was.Moves[:1]}
	gone := admin.DrainedNode{Already: true, Node: admin.FleetNode{Name: "a", Gone: true}, Sandboxes: []api.SandboxID{"s2"}}
	for name, tt := range map[string]struct {
		wait    time.Duration
		answers []admin.DrainedNode
		want    string
		code    error
	}{
		"without --wait":       {0, []admin.DrainedNode{was, then}, text, nil},
		"the wait is over":     {time.Nanosecond, []admin.DrainedNode{was, then}, text, app.ExitCode(1)},
		"nothing is left":      {time.Hour, []admin.DrainedNode{empty}, "a drains already\nnothing is left on a: stop its daemon, then: hortus fleet rm a\nto end the drain, start the daemon of a again\n", nil},
		"a node that is gone":  {time.Hour, []admin.DrainedNode{gone}, "a drains already\ns2\nthe node is gone, with 1 sandbox: hortus fleet rm a\n", app.ExitCode(1)},
		"a plan that stays":    {time.Hour, []admin.DrainedNode{{Node: empty.Node, Work: []admin.WorkMove{{Plan: "p1", State: admin.MoveRefused, Reason: "its repository is a path"}}}}, "", app.ExitCode(1)},
		"a task that runs yet": {time.Nanosecond, []admin.DrainedNode{{Node: admin.FleetNode{Name: "a", Capacity: api.NodeCapacity{Tasks: 1}}}}, "", app.ExitCode(1)},
	} {
		out, _, err := drained(t, tt.wait, tt.answers)
		if err != tt.code || tt.want != "" && out != tt.want {
			t.Errorf("%s: %v\n%s\nwant %v\n%s", name, err, out, tt.code, tt.want)
		}
	}
}
