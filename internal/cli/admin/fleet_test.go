package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/cli/app"
)

// TestDrain: what a person reads while a node drains: each thing once, and again when something new is known of it.
func TestDrain(t *testing.T) {
	work := func(state admin.MoveState, to, reason string, m admin.WorkMove) admin.WorkMove {
		m.State, m.To, m.Reason = state, to, reason
		return m
	}
	talk, plan, task, best := admin.WorkMove{Session: "s1", Key: "talk"}, admin.WorkMove{Plan: "p1"}, admin.WorkMove{Task: "t1"}, admin.WorkMove{Task: "t2"}
	stays := work(admin.MoveRefused, "", "it has several candidates", best)
	answers := []admin.DrainedNode{
		{Work: []admin.WorkMove{work(admin.MovePending, "", "", talk), work(admin.MovePending, "", "what runs now (item a)", plan), work(admin.MovePending, "", "the end of a round", task), stays}},
		{Work: []admin.WorkMove{work(admin.MoveDone, "b", "", talk), work(admin.MovePending, "", "what runs now (item a)", plan), work(admin.MoveDone, "c", "", task), stays}},
		{Work: []admin.WorkMove{work(admin.MoveDone, "b", "", talk), work(admin.MoveDone, "b", "", plan), work(admin.MoveDone, "c", "", task), stays}},
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
			"t2  task stays: it has several candidates\ns1  session talk continues on b\nt1  task continues on c\nmoved: 1 task, 1 session\nstill on a: 2 tasks, 1 plan\n" +
			"the node tries again while it drains; --wait 10m waits for that\n", 2},
		{time.Hour, "a takes nothing new; moving what it has\np1  plan continues on another node after what runs now (item a)\nt1  task continues on another node after the end of a round\n" +
			"t2  task stays: it has several candidates\ns1  session talk continues on b\nt1  task continues on c\np1  plan continues on b\nmoved: 1 task, 1 session, 1 plan\n" +
			"nothing is left on a: stop its daemon, then: hortus fleet rm a\n", 4},
	} {
		looked := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(answers[min(looked, len(answers)-1)])
			looked++
		}))
		c, err := client.Remote(srv.URL, "key")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := &app.App{Flags: &app.Flags{}, Env: app.Env{Stdout: &out, Stderr: &out}}
		err = (&fleetDrainCmd{Node: "a", Wait: tt.wait}).Run(app.Context{Context: context.Background()}, a, c)
		c.Close()
		srv.Close()
		if err != nil || out.String() != tt.want || looked != tt.looked {
			t.Errorf("--wait %s: %v, %d looks:\n%s\nwant:\n%s", tt.wait, err, looked, out.String(), tt.want)
		}
	}
}
