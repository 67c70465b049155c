package daemon

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
)

// TestSandboxReplaced: the sandbox of an agent is killed while it works. Another one takes its place over the same files, an
// event says so, the model is told, and the turn ends as if nothing had happened.
func TestSandboxReplaced(t *testing.T) {
	inBoth(t, func(t *testing.T, p *parlour, isolation string) {
		key := "replaced-" + isolation
		turn, err := p.c.Sessions.Send(t.Context(), key, session.Message{Text: "run: echo begun > begun.txt; sleep 600", Create: talkSettings(isolation)})
		if err != nil {
			t.Fatal(err)
		}
		p.touched(key, turn.N, "begun.txt")
		first := p.live()
		p.kill(first)
		done := p.turn(key, turn.N)
		answered(t, done, api.OutcomeAnswered, session.RestoredNew, "run: echo begun", "result")
		var said []api.RetryEvent
		for e, err := range p.c.Tasks.Events(t.Context(), done.Task, 0) {
			if err != nil {
				t.Fatal(err)
			}
			var r api.RetryEvent
			if e.Type == api.EventRetry && json.Unmarshal(e.Data, &r) == nil {
				said = append(said, r)
			}
		}
		if len(said) != 1 || said[0].What != api.RetrySandbox || said[0].Attempt != 1 || said[0].WaitMS != 1000 || said[0].NextAt.Before(time.Now().Add(-time.Hour)) || !strings.Contains(said[0].Error, string(first)) {
			t.Errorf("events: %+v", said)
		}
		if second := p.live(); second == first {
			t.Error("the sandbox was not replaced")
		}
		answered(t, p.send(key, "run: cat begun.txt", nil), api.OutcomeAnswered, session.RestoredWarm, "begun")
		s, err := p.c.Sessions.Close(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		p.nothingLeft(s)
	})
}

// live is the only sandbox that runs.
func (p *parlour) live() (id api.SandboxID) {
	p.t.Helper()
	eventually(p.t, "one sandbox runs", func() bool {
		boxes, err := p.c.Sandboxes.List(p.t.Context(), false)
		if err != nil || len(boxes) != 1 || boxes[0].State != api.SandboxRunning {
			return false
		}
		id = boxes[0].ID
		return true
	})
	return id
}
