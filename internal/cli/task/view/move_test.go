package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
)

// TestContinued: who follows a task sees on which node it continues, and why.
func TestContinued(t *testing.T) {
	for want, move := range map[string]*api.TaskMove{
		"continued after a restart of the daemon: 4 recorded steps":                                         nil,
		"continues on node a, because node b was drained: 4 recorded steps":                                 {From: "b", To: "a", Why: api.MoveDrained},
		"continues on node a, because node b ended or could not reach the database: 4 recorded steps":       {From: "b", To: "a", Why: api.MoveEnded},
		"continues on node b, which drains, because no other node took it: 4 recorded steps":                {From: "b", To: "b", Why: api.MoveDrained},
		`continues on node a\x1b[m, because node b ended or could not reach the database: 4 recorded steps`: {From: "b", To: "a\x1b[m", Why: api.MoveEnded},
	} {
		var out bytes.Buffer
		p := NewProgress(app.Env{Stderr: &out, Getenv: func(string) string { return "" }}, false, "t1")
		data, err := json.Marshal(api.ResumedEvent{Steps: 4, Move: move})
		if err != nil {
			t.Fatal(err)
		}
		p.Event(api.Event{Type: api.EventTaskResumed, Data: data})
		p.Close()
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}

// TestWaits: a task says for what a sandbox of it waits.
func TestWaits(t *testing.T) {
	for want, e := range map[string]api.WaitingEvent{
		"[wait] a sandbox waits for disk: 1 GB of disk are free\n":                   {Cause: api.WaitDisk, Why: "1 GB of disk are free", Position: 1, Of: 4},
		"[wait] a sandbox waits for its turn: others were first; 2 wait before it\n": {Cause: api.WaitTurn, Why: "others were first", Position: 3, Of: 4},
	} {
		var out bytes.Buffer
		p := NewProgress(app.Env{Stderr: &out, Getenv: func(string) string { return "" }}, false, "t1")
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		p.Event(api.Event{Type: api.EventTaskWaiting, Data: data})
		p.Close()
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("%q, want %q", out.String(), want)
		}
	}
}
