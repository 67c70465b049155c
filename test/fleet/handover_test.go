package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/api/plan"
	"hortus.dev/api/session"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/gittest"
	"hortus.dev/test/postgrestest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// client returns the client of a node, by its name, and the name of the other node.
func (p *pair) client(name string) (*client.Client, string) {
	if name == "a" {
		return p.lives.Client, "b"
	}
	return p.dies.client, "a"
}

// sends says something in a session, and again while no node has it, as clients do. It returns the turn.
func sends(t *testing.T, c *client.Client, key string, m session.Message) session.Turn {
	t.Helper()
	for {
		turn, err := c.Sessions.Send(t.Context(), key, m)
		if api.KindOf(err) != api.KindUnavailable || api.RetryAfterOf(err) == 0 {
			return world.Must(turn, err)(t)
		}
		t.Logf("a message is refused: %v", err)
		select {
		case <-time.After(api.RetryAfterOf(err)):
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}

// answered waits for the answer to a turn.
func answered(t *testing.T, c *client.Client, key string, n int) (out session.Turn) {
	t.Helper()
	until(t, fmt.Sprint("turn ", n, " ends"), func(ctx context.Context) bool {
		s := world.Must(c.Sessions.Get(ctx, key))(t)
		if len(s.Turns) < n || s.Turns[n-1].State != session.TurnDone {
			return false
		}
		out = s.Turns[n-1]
		return true
	})
	return out
}

// follow reads the events of a session until a turn is answered.
func follow(t *testing.T, c *client.Client, key string, n int) <-chan error {
	done := make(chan error, 1)
	go func() {
		last := int64(0)
		for e, err := range c.Sessions.Events(t.Context(), key, 0) {
			switch {
			case err != nil:
				done <- err
				return
			case e.Seq != last+1:
				done <- fmt.Errorf("event %d follows %d", e.Seq, last)
				return
			}
			last = e.Seq
			if e.Type == session.EventAnswer && strings.Contains(string(e.Data), fmt.Sprintf(`"n":%d,`, n)) {
				done <- nil
				return
			}
		}
		done <- errors.New("the stream ended")
	}()
	return done
}

// drained drains a node until a condition holds for what it says.
func drained(t *testing.T, c *client.Client, name, what string, ok func(admin.DrainedNode) bool) (out admin.DrainedNode) {
	t.Helper()
	until(t, what, func(ctx context.Context) bool {
		out = world.Must(c.DrainNode(ctx, name, admin.DrainNode{}))(t)
		return ok(out)
	})
	return out
}

// went reports whether a node says that work continues on another one.
func went(m admin.WorkMove) func(admin.DrainedNode) bool {
	m.State = admin.MoveDone
	return func(out admin.DrainedNode) bool { return slices.Contains(out.Work, m) }
}

// newCount makes a model for a session that adds a line to a file in each turn.
func newCount(t *testing.T) *scripted {
	return newScripted(t, map[string][]string{"session": {
		shell("echo one > count.txt"), say("turn one is done"),
		shell("echo two >> count.txt && cat count.txt"), say("turn two is done"),
		shell("echo three >> count.txt && cat count.txt"), say("turn three is done"),
	}}, func(string) string { return "session" })
}

// TestDrainMovesSessions drains the node of a session: one that waits goes at once, one that works after its turn, with the message that waits. The other node has the
// files and the conversation, each message is answered once, and who follows it at either node sees each event once.
func TestDrainMovesSessions(t *testing.T) {
	tier.Soak(t) // it waits until a node that started can take over; internal/task/session has the rest
	tier.AnyUser(t)
	t.Parallel()
	m := newCount(t)
	url, dir := serve(t, map[string]string{"README.md": "notes\n"})
	p := newPair(t, m)
	ctx := t.Context()
	settings := &session.Settings{Repository: url, Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"}, Verify: "ls README.md", Push: true, NoSetup: true}
	sends(t, p.lives.Client, "work", session.Message{Text: "first message", Create: settings})
	first := answered(t, p.lives.Client, "work", 1)
	from := p.nodeOf(t, world.Must(p.lives.DB.Task(ctx, first.Task))(t).Owner)
	old, to := p.client(from)
	next, _ := p.client(to)
	s := world.Must(old.Sessions.Get(ctx, "work"))(t)
	followed := []<-chan error{follow(t, old, "work", 3), follow(t, next, "work", 3)}
	// The second turn works when the node begins to drain, and a message waits.
	reached := m.hold("session 3")
	sends(t, old, "work", session.Message{Text: "second message"})
	<-reached
	sends(t, next, "work", session.Message{Text: "third message"})
	drained(t, next, from, "the session waits", func(out admin.DrainedNode) bool {
		return slices.Contains(out.Work, admin.WorkMove{Session: s.ID, Key: "work", State: admin.MovePending, Reason: "the end of its turn"})
	})
	m.goOn()
	moved := admin.WorkMove{Session: s.ID, Key: "work", To: to}
	drained(t, next, from, "the session goes after its turn", went(moved))
	began := time.Now()
	three := answered(t, old, "work", 3)
	t.Logf("the message that waited was answered %s after the session went", time.Since(began).Round(100*time.Millisecond))
	for n := range 6 {
		if got := m.count(fmt.Sprint("session ", n)); got != 1 {
			t.Errorf("request %d was made %d times", n, got)
		}
	}
	for i, f := range followed {
		if err := <-f; err != nil {
			t.Errorf("who follows the session at node %d: %v", i, err)
		}
	}
	third := world.Must(p.lives.DB.Task(ctx, three.Task))(t)
	if node := p.nodeOf(t, third.Owner); node != to || three.Outcome != api.OutcomeVerified {
		t.Errorf("the third turn is %s on node %s: %+v", three.Outcome, node, three.Error)
	}
	if asked := m.newest("session"); !strings.Contains(asked, "first message") || !strings.Contains(asked, "turn two is done") || !strings.Contains(asked, `one\ntwo\nthree`) {
		t.Errorf("the model was asked: %s", asked)
	}
	if third.Repo.Delivery == nil || gittest.Git(t, dir, "show", third.Repo.Delivery.Branch+":count.txt") != "one\ntwo\nthree" {
		t.Errorf("the delivery: %+v", third.Repo.Delivery)
	}
	out := drained(t, next, from, "nothing is left", func(out admin.DrainedNode) bool { return len(out.Sandboxes)+out.Node.Capacity.Tasks == 0 })
	if len(out.Work) != 1 || out.Busy() || out.Waits() {
		t.Errorf("the drain says %+v", out.Work)
	}
}

// TestDrainMovesIdleSession drains the node of a session that waits, with a sandbox: it is another node's at once, and a message that comes meanwhile waits for that.
func TestDrainMovesIdleSession(t *testing.T) {
	tier.Soak(t) // as TestDrainMovesSessions
	tier.AnyUser(t)
	t.Parallel()
	m := newCount(t)
	p := newPair(t, m)
	ctx := t.Context()
	settings := &session.Settings{Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"}, WarmMS: time.Hour.Milliseconds()}
	sends(t, p.lives.Client, "talk", session.Message{Text: "first message", Create: settings})
	first := answered(t, p.lives.Client, "talk", 1)
	from := p.nodeOf(t, world.Must(p.lives.DB.Task(ctx, first.Task))(t).Owner)
	old, to := p.client(from)
	next, _ := p.client(to)
	s := world.Must(next.Sessions.Get(ctx, "talk"))(t)
	began := time.Now()
	out := drained(t, next, from, "the session goes", went(admin.WorkMove{Session: s.ID, Key: "talk", To: to}))
	if len(out.Sandboxes) != 0 {
		t.Errorf("its sandbox is left: %+v", out.Moves)
	}
	t.Logf("the session went %s after the drain began", time.Since(began).Round(10*time.Millisecond))
	for i, c := range []*client.Client{old, next} {
		if turn := sends(t, c, "talk", session.Message{Text: "another message"}); turn.N != 2+i {
			t.Errorf("message %d is turn %d", 2+i, turn.N)
		}
		t.Logf("message %d was taken %s after the drain began", 2+i, time.Since(began).Round(10*time.Millisecond))
	}
	three := answered(t, old, "talk", 3)
	if three.Outcome != api.OutcomeAnswered {
		t.Errorf("the third turn is %s: %+v", three.Outcome, three.Error)
	}
	for n := range 6 {
		if got := m.count(fmt.Sprint("session ", n)); got != 1 {
			t.Errorf("request %d was made %d times", n, got)
		}
	}
	if asked := m.newest("session"); !strings.Contains(asked, "first message") || !strings.Contains(asked, `one\ntwo\nthree`) {
		t.Errorf("the model was asked: %s", asked)
	}
	// What is made from a checkpoint of the other node has the whole conversation, too.
	world.Must(old.Sessions.Fork(ctx, "talk", session.Fork{Key: "fork"}))(t)
	sends(t, old, "fork", session.Message{Text: "a message in a fork"})
	answered(t, old, "fork", 4)
	if asked := m.newest("session"); !strings.Contains(asked, "first message") || !strings.Contains(asked, "a message in a fork") {
		t.Errorf("in the fork the model was asked: %s", asked)
	}
}

// TestDrainMovesPlan drains the node of a plan of which one item is done and another one works: that goes on after its round, and the third one begins, on the other node.
// Nothing is asked twice.
func TestDrainMovesPlan(t *testing.T) {
	tier.Soak(t) // as TestDrainMovesSessions; internal/task/plan has the rest
	tier.AnyUser(t)
	t.Parallel()
	ctx := t.Context()
	m := newScripted(t, map[string][]string{
		"one":   {shell("echo one > one.txt"), finish("one")},
		"two":   {shell("cat one.txt > two.txt && echo more >> two.txt"), finish("two")},
		"three": {shell("cat one.txt two.txt > three.txt"), finish("three")},
	}, func(body string) string {
		for _, name := range []string{"one", "two", "three"} {
			if strings.Contains(body, "Write "+name+".txt") {
				return name
			}
		}
		return "nobody"
	})
	url, dir := serve(t, map[string]string{"README.md": "notes\n"})
	p := newPair(t, m)
	item := func(name string, needs ...string) plan.Item {
		return plan.Item{ID: name, Request: "Write " + name + ".txt", Needs: needs, Touches: []string{name + ".txt"}, Creates: []string{name + ".txt"}}
	}
	reached := m.hold("two 1")
	made := world.Must(p.lives.Client.Plans.Create(ctx, plan.Create{
		Task: api.CreateTask{
			Request: "Write three files", Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"},
			Repo: &api.RepoTask{URL: url, Verify: "ls README.md", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, Push: true, NoSetup: true},
		},
		Items: []plan.Item{item("one"), item("two", "one"), item("three", "two")},
	}))(t)
	<-reached
	from := p.nodeOf(t, world.Must(p.lives.DB.Plan(ctx, made.ID))(t).Owner)
	old, to := p.client(from)
	next, _ := p.client(to)
	drained(t, next, from, "the plan waits for its item", func(out admin.DrainedNode) bool {
		return slices.Contains(out.Work, admin.WorkMove{Plan: made.ID, State: admin.MovePending, Reason: "what runs now (item two)"})
	})
	m.goOn()
	drained(t, next, from, "the plan goes", went(admin.WorkMove{Plan: made.ID, To: to}))
	defer func() {
		if t.Failed() {
			got, err := p.lives.Client.Plans.Get(context.WithoutCancel(ctx), made.ID)
			t.Logf("the plan: %+v, %v", got, err)
		}
	}()
	var done plan.Plan
	until(t, "the plan ends", func(ctx context.Context) bool {
		done = world.Must(old.Plans.Get(ctx, made.ID))(t)
		return done.State == plan.Done
	})
	if done.Outcome != api.OutcomeVerified || done.Delivered == nil || done.Delivered.Error != nil || p.nodeOf(t, done.Owner) != to {
		t.Fatalf("the plan is %s on node %s: %s, %+v, %+v, %+v", done.Outcome, p.nodeOf(t, done.Owner), done.Why, done.Error, done.Delivered, done.Items)
	}
	for _, id := range []string{"one 0", "one 1", "two 0", "two 1", "three 0", "three 1"} {
		if n := m.count(id); n != 1 {
			t.Errorf("%s was asked %d times", id, n)
		}
	}
	for i, it := range done.Items {
		if len(it.Tries) != 1 {
			t.Errorf("item %s had %d tries: %+v", it.ID, len(it.Tries), it.Tries)
		}
		resumed := 0
		for _, e := range world.Must(p.lives.DB.ReadEvents(ctx, api.Stream{Kind: api.StreamTask, ID: string(it.Tries[0].Task)}, 0, 1000))(t) {
			if e.Type == api.EventTaskResumed {
				resumed++
			}
		}
		if want := map[int]int{1: 1}[i]; resumed != want { // the second one stopped on the one node, and continued on the other one
			t.Errorf("the task of item %s continued %d times", it.ID, resumed)
		}
	}
	if text := gittest.Git(t, dir, "show", done.Delivered.Branch+":three.txt"); text != "one\none\nmore" {
		t.Errorf("three.txt is %q", text)
	}
	drained(t, next, from, "nothing is left", func(out admin.DrainedNode) bool {
		return len(out.Sandboxes)+out.Node.Capacity.Tasks == 0 && len(out.Work) == 1
	})
}

// TestDrainWithoutDatabase takes the database away when a session, or a task, is handed over, and when the other node takes it over. When the database is back it has one
// owner, which does what is left, once.
func TestDrainWithoutDatabase(t *testing.T) {
	tier.Soak(t)
	tier.AnyUser(t)
	for _, tt := range []struct {
		name, text string
		task, long bool
	}{
		{"a session goes", "UPDATE session SET owner", false, false},
		{"a session goes, for longer than a lease", "UPDATE session SET owner", false, true},
		{"a task goes", "UPDATE run SET owner", true, true},
		{"a task is taken over", "SET owner = $2, lease_epoch", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			m := newCount(t)
			server := postgrestest.Start(t)
			proxy := server.Proxy(t)
			url, _ := serve(t, map[string]string{"README.md": "notes\n"})
			p := base{store: daemon.Store{URL: proxy.URL(server.Database(t))}, key: make([]byte, 32)}.pair(t, m)
			var owner func() api.OwnerID
			var reached <-chan struct{}
			var task api.Task
			if tt.task {
				reached = m.hold("session 1")
				task = world.Must(p.lives.Client.Tasks.Create(ctx, api.CreateTask{
					Request: "Count", Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"},
					Repo: &api.RepoTask{URL: url, Verify: "ls README.md", Author: api.Identity{Name: "Ada", Email: "ada@example.org"}, NoSetup: true},
				}))(t)
				<-reached
				owner = func() api.OwnerID { return world.Must(p.lives.DB.Task(ctx, task.ID))(t).Owner }
			} else {
				sends(t, p.lives.Client, "talk", session.Message{Text: "first message", Create: &session.Settings{Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: "container"}}})
				answered(t, p.lives.Client, "talk", 1)
				owner = func() api.OwnerID { return world.Must(p.lives.DB.SessionByKey(ctx, "", "talk"))(t).Owner }
			}
			was := owner()
			from := p.nodeOf(t, was)
			old, to := p.client(from)
			next, _ := p.client(to)

			stopped := make(chan error, 1)
			proxy.Lose(&postgrestest.Loss{Text: tt.text, Before: func() { stopped <- server.Stop() }})
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				_, _ = next.DrainNode(ctx, from, admin.DrainNode{}) // the database may be away before it answers
			}()
			if tt.task {
				<-asked
				m.goOn()
			}
			world.OK(t, <-stopped)
			for _, c := range []*client.Client{old, next} {
				until(t, "the nodes refuse", func(ctx context.Context) bool {
					timed, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					_, err := c.FleetNodes(timed)
					return !tt.long || err != nil && strings.Contains(err.Error(), "has not reached the database")
				})
			}
			world.OK(t, server.Run())
			<-asked
			if tt.task {
				if task = p.ended(t, task.ID); task.Outcome == api.OutcomeLost || m.count("session 0") != 1 || m.count("session 1") != 1 {
					t.Errorf("the task is %s: %+v, %s; %d and %d requests", task.Outcome, task.Error, task.Diagnosis, m.count("session 0"), m.count("session 1"))
				}
			} else {
				sends(t, old, "talk", session.Message{Text: "second message"})
				if two := answered(t, next, "talk", 2); two.Outcome != api.OutcomeAnswered || m.count("session 2") != 1 || m.count("session 3") != 1 {
					t.Errorf("the second turn is %s: %+v; %d and %d requests", two.Outcome, two.Error, m.count("session 2"), m.count("session 3"))
				}
				if asked := m.newest("session"); !strings.Contains(asked, `one\ntwo`) {
					t.Errorf("the model was asked: %s", asked)
				}
			}
			// Its owner is the current run of the one node, which is the other one.
			row := world.Must(p.lives.DB.NodeOfOwner(ctx, owner()))(t)
			if row.Name != to || row.Owner != owner() {
				t.Errorf("its owner is %s of node %s, whose run is %s", owner(), row.Name, row.Owner)
			}
		})
	}
}
