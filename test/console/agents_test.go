package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"hortus.dev/test/modelserver"
)

// agents are scripted agents that work at the same time, as the model "anthropic". The last "[NAME] " of a conversation says which one it is.
type agents struct {
	url string

	mu    sync.Mutex
	steps map[string][]agentStep
	held  map[string]chan struct{}
}

// agentStep is a call of a tool, an answer, or a wait until the browser's script releases it.
type agentStep struct{ call, say, hold string }

var agentName = regexp.MustCompile(`\[([a-z0-9-]+)\] `)

// newAgents reads lines "NAME KIND TEXT". The kinds are shell and finish, with what the tool gets, say, which answers, and hold, which waits
// until /release/TEXT is asked for.
func newAgents(t *testing.T, script string) *agents {
	t.Helper()
	a := &agents{steps: map[string][]agentStep{}, held: map[string]chan struct{}{}}
	for line := range strings.Lines(script) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(f) != 3 {
			t.Fatalf("%q is not NAME KIND TEXT", line)
		}
		s := agentStep{}
		switch f[1] {
		case "shell":
			s.call = call(t, "shell", "command", f[2])
		case "finish":
			s.call = call(t, "finish", "summary", f[2])
		case "say":
			s.say = f[2]
		case "hold":
			s.hold, a.held[f[2]] = f[2], make(chan struct{})
		default:
			t.Fatalf("%q is no kind", f[1])
		}
		a.steps[f[0]] = append(a.steps[f[0]], s)
	}
	srv := httptest.NewServer(a)
	a.url = srv.URL
	t.Cleanup(func() {
		srv.CloseClientConnections() // an agent may be held
		srv.Close()
	})
	return a
}

func call(t *testing.T, tool, field, text string) string {
	t.Helper()
	in, err := json.Marshal(map[string]string{field: text})
	if err != nil {
		t.Fatal(err)
	}
	return "call: " + tool + "\nusage: 1000 500 50\n\n" + string(in) + "\n"
}

// getenv gives the daemon its model.
func (a *agents) getenv(name string) string {
	return map[string]string{"ANTHROPIC_BASE_URL": a.url, "ANTHROPIC_API_KEY": "key-of-the-agents"}[name]
}

// ServeHTTP answers with the next step of an agent, and releases steps that are held.
func (a *agents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, ok := strings.CutPrefix(r.URL.Path, "/release/"); ok {
		a.mu.Lock()
		close(a.held[name])
		a.mu.Unlock()
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left
	}
	text := "usage: 10 0 1\n\nnothing\n"
	if name := a.named(body); r.Method == http.MethodPost && name != "" && strings.HasSuffix(r.URL.Path, "/messages") {
		if text, err = a.next(r, name); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	s, err := modelserver.New([]byte("key: key-of-the-agents\n-- step --\n" + text))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.ServeHTTP(w, r)
}

// named returns the agent that a request names last; "" if it names none.
func (a *agents) named(body []byte) (name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range agentName.FindAllSubmatch(body, -1) {
		if _, ok := a.steps[string(m[1])]; ok {
			name = string(m[1])
		}
	}
	return name
}

func (a *agents) next(r *http.Request, name string) (string, error) {
	for {
		a.mu.Lock()
		steps := a.steps[name]
		if len(steps) == 0 {
			a.mu.Unlock()
			return "", fmt.Errorf("agent %s has no step left", name)
		}
		s := steps[0]
		a.steps[name] = steps[1:]
		held := a.held[s.hold]
		a.mu.Unlock()
		switch {
		case s.hold != "":
			select {
			case <-held:
			case <-r.Context().Done():
				return "", r.Context().Err()
			}
		case s.say != "":
			return "usage: 1000 500 50\n\n" + s.say + "\n", nil
		default:
			return s.call, nil
		}
	}
}
