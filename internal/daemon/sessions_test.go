package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
	"hortus.dev/client"
	wait "hortus.dev/test/patience"

	"hortus.dev/test/modelserver"
	testtools "hortus.dev/test/tools"
)

// brain is a model that does what it is told: "run: COMMAND" is a call of the shell, and everything else, also the result of a call, is
// answered with all requests of the conversation.
type brain struct {
	*httptest.Server
	mu    sync.Mutex
	asked int
}

const brainKey = "key-of-the-brain"

func newBrain(t *testing.T) *brain {
	t.Helper()
	b := &brain{}
	b.Server = httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(b.Close)
	return b
}

func (b *brain) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.mu.Lock()
	b.asked++
	b.mu.Unlock()
	s, err := modelserver.New([]byte("key: " + brainKey + "\n-- step --\n" + answerTo(body)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.ServeHTTP(w, r)
}

// answerTo is the step that answers a request.
func answerTo(body []byte) string {
	var req struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	_ = json.Unmarshal(body, &req)
	var said []string
	result := ""
	for _, m := range req.Messages {
		var blocks []struct {
			Type    string          `json:"type"`
			Text    string          `json:"text"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			var text string
			_ = json.Unmarshal(m.Content, &text)
			blocks = append(blocks, struct {
				Type    string          `json:"type"`
				Text    string          `json:"text"`
				Content json.RawMessage `json:"content"`
			}{Type: "text", Text: text})
		}
		for _, c := range blocks {
			switch {
			case c.Type == "tool_result":
				result = strings.TrimSpace(string(c.Content))
			case m.Role == "user" && strings.Contains(c.Text, "Request:\n"):
				_, text, _ := strings.Cut(c.Text, "Request:\n")
				text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
				said, result = append(said, text), ""
			}
		}
	}
	last := ""
	if len(said) > 0 {
		last = said[len(said)-1]
	}
	if command, ok := strings.CutPrefix(last, "run: "); ok && result == "" {
		in, _ := json.Marshal(map[string]string{"command": command})
		return "call: shell\n\n" + string(in) + "\n"
	}
	return "\nheard " + strings.Join(said, " | ") + "; result " + result + "\n"
}

// parlour is a daemon for sessions, which can be started again.
type parlour struct {
	t     *testing.T
	cfg   Config
	s     *System
	c     *client.Client
	brain *brain
	leave func()
}

func newParlour(t *testing.T) *parlour {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	p := &parlour{t: t, brain: newBrain(t)}
	p.cfg = Config{
		DataDir: t.TempDir(), Pool: -1, Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Runsc: filepath.Join(testtools.Dir(t), testtools.Runsc),
		Getenv: func(name string) string {
			switch name {
			case "ANTHROPIC_API_KEY":
				return brainKey
			case "ANTHROPIC_BASE_URL":
				return p.brain.URL
			}
			return ""
		},
	}
	withTemplate(t, p.cfg)
	p.open()
	t.Cleanup(func() { p.leave() })
	isolated(t, p.c)
	return p
}

// open starts the daemon.
func (p *parlour) open() {
	p.t.Helper()
	s, err := Open(p.t.Context(), p.cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(p.t.Context()))
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- s.Serve(ctx, func() { close(ready) }) }()
	<-ready
	p.s, p.c = s, client.Unix(s.dir.Socket())
	p.leave = func() {
		p.c.Close()
		stop()
		if err := <-served; err != nil {
			p.t.Error(err)
		}
		if err := s.Close(context.Background()); err != nil {
			p.t.Error(err)
		}
		p.leave = func() {}
	}
}

// restart ends the daemon in order and starts the next one.
func (p *parlour) restart() {
	p.t.Helper()
	p.leave()
	p.open()
}

// talkSettings are those of a session in a test.
func talkSettings(isolation string) *session.Settings {
	return &session.Settings{Model: "anthropic", Sandbox: api.CreateSandbox{Isolation: isolation}}
}

// send says something and waits for the end of the turn.
func (p *parlour) send(key, text string, create *session.Settings) session.Turn {
	p.t.Helper()
	turn, err := p.c.Sessions.Send(p.t.Context(), key, session.Message{Text: text, Create: create})
	if err != nil {
		p.t.Fatal(err)
	}
	return p.turn(key, turn.N)
}

// turn waits for the end of a turn.
func (p *parlour) turn(key string, n int) session.Turn {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), wait.Of(2*time.Minute))
	defer cancel()
	for e, err := range p.c.Sessions.Events(ctx, key, 0) {
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
	s, err := p.c.Sessions.Get(p.t.Context(), key)
	if err != nil {
		p.t.Fatal(err)
	}
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
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			was := p.t
			p.t = t
			defer func() { p.t = was }()
			if d, err := p.c.Doctor(t.Context()); err != nil || isolation == "gvisor" && d.Auto != "gvisor" {
				t.Skipf("no gvisor here: %s, %v", d.AutoWhy, err)
			}
			test(t, p, isolation)
		})
	}
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

		p.restart()
		if s := p.get(key); s.State != session.Stored || s.Sandbox != "" || s.TurnCount != 3 {
			t.Errorf("after a restart: %+v", s)
		}
		fourth := p.send(key, "run: cat a.txt", nil)
		answered(t, fourth, api.OutcomeAnswered, session.RestoredRebuilt, "run: echo one", "run: a=", "what did I say?", "one")
		if fourth.RestoredMS <= 0 {
			t.Errorf("it took %d ms", fourth.RestoredMS)
		}
		var hows []string
		for e, err := range p.c.Sessions.Events(t.Context(), key, 0) {
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
		closed, err := p.c.Sessions.Close(t.Context(), key)
		if err != nil || closed.State != session.Closed {
			t.Fatal(closed.State, err)
		}
		p.nothingLeft(closed)
	})
}

// nothingLeft checks that nothing of a closed session is there.
func (p *parlour) nothingLeft(s session.Session) {
	p.t.Helper()
	boxes, err := p.c.Sandboxes.List(p.t.Context(), false)
	if err != nil || len(boxes) > 0 {
		p.t.Errorf("%d sandboxes are left, %v", len(boxes), err)
	}
	ids, err := p.s.workspaces.List()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, id := range ids {
		if w, err := p.s.workspaces.Get(id); err == nil && w.Session == s.ID {
			p.t.Errorf("workspace %s is left", id)
		}
	}
	if _, err := os.Stat(filepath.Join(p.cfg.DataDir, "sessions", string(s.ID))); !os.IsNotExist(err) {
		p.t.Errorf("its files are left: %v", err)
	}
}
