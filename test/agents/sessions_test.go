package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/patience"
	"hortus.dev/test/world"
)

const brainKey = "key-of-the-brain"

// brain is the environment of a daemon whose model does what it is told: "run: COMMAND" is a call of the shell, and everything else,
// also the result of a call, is answered with all requests of the conversation.
func brain(t *testing.T) func(name string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c := read(body)
		step := fmt.Sprintf("\nheard %s; result %q\n", strings.Join(c.requests, " | "), strings.Join(c.results, ""))
		if command, ok := strings.CutPrefix(c.name, "run: "); ok && len(c.results) == 0 {
			in, _ := json.Marshal(map[string]string{"command": command})
			step = "call: shell\n\n" + string(in) + "\n"
		}
		answer(w, r, body, step)
	}))
	t.Cleanup(srv.Close)
	return (&crew{Server: srv}).env
}

// parlour is a daemon for sessions.
type parlour struct {
	t *testing.T
	w *world.World
}

func newParlour(t *testing.T) *parlour {
	t.Helper()
	t.Parallel()
	w := world.Open(t, world.Config{GVisor: true, Config: daemon.Config{Getenv: brain(t)}})
	w.Isolates(t, "")
	return &parlour{t, w}
}

// talkSettings are those of a session in a test.
func talkSettings(isolation string) *session.Settings {
	return &session.Settings{Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: isolation}}
}

// send says something and waits for the end of the turn.
func (p *parlour) send(key, text string, create *session.Settings) session.Turn {
	p.t.Helper()
	turn := world.Must(p.w.Client.Sessions.Send(p.t.Context(), key, session.Message{Text: text, Create: create}))(p.t)
	return p.turn(key, turn.N)
}

// turn waits for the end of a turn.
func (p *parlour) turn(key string, n int) session.Turn {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience.Of(5*time.Minute))
	defer cancel()
	for e, err := range p.w.Client.Sessions.Events(ctx, key, 0) {
		if err != nil {
			p.t.Fatal(err)
		}
		var t session.Turn
		if e.Type == session.EventAnswer && json.Unmarshal(e.Data, &t) == nil && t.N == n {
			return t
		}
	}
	p.t.Fatalf("turn %d has no end", n)
	return session.Turn{}
}

// get reads a session.
func (p *parlour) get(key string) session.Session {
	p.t.Helper()
	s := world.Must(p.w.Client.Sessions.Get(p.t.Context(), key))(p.t)
	return s
}

// answered checks the answer of a turn.
func answered(t *testing.T, turn session.Turn, outcome api.Outcome, how string, says ...string) {
	t.Helper()
	if turn.Outcome != outcome || turn.Restored != how {
		t.Errorf("turn %d is %s, its sandbox %s; want %s, %s: %s %+v", turn.N, turn.Outcome, turn.Restored, outcome, how, turn.Note, turn.Error)
	}
	for _, want := range says {
		if !strings.Contains(turn.Answer, want) {
			t.Errorf("turn %d: %q does not say %q", turn.N, turn.Answer, want)
		}
	}
}

// inBoth runs a test in both kinds of sandboxes.
func inBoth(t *testing.T, test func(t *testing.T, p *parlour, isolation string)) {
	p := newParlour(t)
	inEach(t, p.w, func(t *testing.T, isolation string) { test(t, &parlour{t, p.w}, isolation) })
}

// TestSessionRestored: a session keeps its conversation and its files while its sandbox is warm, after its window, and after a
// restart of the daemon, and says what was restored.
func TestSessionRestored(t *testing.T) {
	inBoth(t, func(t *testing.T, p *parlour, isolation string) {
		key := "restored-" + isolation
		set := talkSettings(isolation)
		set.WarmMS = (2 * time.Hour).Milliseconds()
		first := p.send(key, "run: echo one > a.txt; (while sleep 0.1; do date +%s%N > beat; done) >/dev/null 2>&1 & echo started", set)
		answered(t, first, api.OutcomeAnswered, session.RestoredNew, "run: echo one")
		if !first.Changed || !first.Checkpoint || !strings.Contains(first.Note, "no gate") {
			t.Errorf("%+v", first)
		}
		if s := p.get(key); s.State != session.Warm || s.Sandbox == "" {
			t.Errorf("after a turn it is %s, sandbox %q", s.State, s.Sandbox)
		}
		// What the agent started goes on in the warm sandbox.
		second := p.send(key, "run: a=$(cat beat); sleep 1; test \"$a\" != \"$(cat beat)\" && echo it-beats; cat a.txt", nil)
		answered(t, second, api.OutcomeAnswered, session.RestoredWarm, "run: echo one", "it-beats", "one")
		third := p.send(key, "what did I say?", nil)
		answered(t, third, api.OutcomeAnswered, session.RestoredWarm, "run: echo one", "run: a=", "what did I say?")

		p.w.Restart()
		if s := p.get(key); s.State != session.Stored || s.Sandbox != "" || s.TurnCount != 3 {
			t.Errorf("after a restart: %+v", s)
		}
		fourth := p.send(key, "run: cat a.txt", nil)
		answered(t, fourth, api.OutcomeAnswered, session.RestoredRebuilt, "run: echo one", "run: a=", "what did I say?", "one")
		if fourth.RestoredMS <= 0 {
			t.Errorf("it took %d ms", fourth.RestoredMS)
		}
		var hows []string
		for e, err := range p.w.Client.Sessions.Events(t.Context(), key, 0) {
			if err != nil {
				t.Fatal(err)
			}
			var r session.RestoredEvent
			if e.Type == session.EventRestored && json.Unmarshal(e.Data, &r) == nil {
				hows = append(hows, fmt.Sprint(r.How, " ", r.Messages))
				t.Logf("turn %d: %s in %d ms, %d messages", r.Turn, r.How, r.MS, r.Messages)
				if r.Turn == 4 {
					break
				}
			}
		}
		if len(hows) != 4 || !strings.HasPrefix(hows[0], "new 0") || !strings.HasPrefix(hows[3], session.RestoredRebuilt) || strings.HasSuffix(hows[3], " 0") {
			t.Errorf("restored: %q", hows)
		}
		closed, err := p.w.Client.Sessions.Close(t.Context(), key)
		if err != nil || closed.State != session.Closed {
			t.Fatal(closed.State, err)
		}
		p.nothingLeft(closed)
	})
}

// nothingLeft checks that nothing of a closed session is there.
func (p *parlour) nothingLeft(s session.Session) {
	p.t.Helper()
	sandboxes, err := p.w.Client.Sandboxes.List(p.t.Context(), false)
	if err != nil || len(sandboxes) > 0 {
		p.t.Errorf("%d sandboxes are left, %v", len(sandboxes), err)
	}
	ids := world.Must(p.w.Workspaces.List())(p.t)
	for _, id := range ids {
		if w, err := p.w.Workspaces.Get(id); err == nil && w.Session == s.ID {
			p.t.Errorf("workspace %s is left", id)
		}
	}
	if _, err := os.Stat(filepath.Join(string(p.w.Dir), "sessions", string(s.ID))); !os.IsNotExist(err) {
		p.t.Errorf("its files are left: %v", err)
	}
}
