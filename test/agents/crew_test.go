package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/modelserver"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

// TestMain lets the test binary be everything that hortus is.
func TestMain(m *testing.M) { world.Main(m) }

// crew is a model of agents and of their sub-agents in copies. Each follows a script, by how often it answered: an agent the one of its
// strategy (with " again" if it continues the work of others) or else of its request, a sub-agent the one of its task.
type crew struct {
	t *testing.T
	*httptest.Server
	scripts map[string][][]act

	mu sync.Mutex
	// want sub-agents, or agents with a strategy if alone is set, must have asked before one gets its first answer; met is closed then.
	// together is called before that, with mu.
	want     int
	alone    bool
	here     map[string]bool
	met      chan struct{}
	together func()
	// think is the head of a step with the time that the model takes; usually none.
	think string
	// got are the results of the calls of each, in their order.
	got map[string][]string
}

// act is one call of a tool.
type act struct {
	tool string
	in   map[string]any
}

func shells(command string) []act { return []act{{"shell", map[string]any{"command": command}}} }
func finishes(summary string) []act {
	return []act{{"finish", map[string]any{"summary": summary}}}
}

// asksInCopies is an answer that asks sub-agents in copies.
func asksInCopies(tasks ...string) (all []act) {
	for _, task := range tasks {
		all = append(all, act{"research", map[string]any{"question": task, "copy": true}})
	}
	return all
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	m := &crew{t: t}
	m.begin(0, nil, nil)
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

// begin gives the crew other scripts.
func (m *crew) begin(want int, scripts map[string][][]act, together func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts, m.want, m.together = scripts, want, together
	m.alone, m.here, m.met, m.got = false, map[string]bool{}, make(chan struct{}), map[string][]string{}
}

// results are those of the calls of an agent or a sub-agent.
func (m *crew) results(name string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got[name]
}

// env is the environment of a daemon whose model it is.
func (m *crew) env(name string) string {
	switch name {
	case "ANTHROPIC_API_KEY":
		return brainKey
	case "ANTHROPIC_BASE_URL":
		return m.URL
	}
	return ""
}

func (m *crew) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := read(body)
	name := c.name
	waits := c.sub
	m.mu.Lock()
	script, met := m.scripts[name], m.met
	m.got[name] = c.results
	if m.alone {
		waits = c.planned
	}
	if waits && !m.here[name] {
		m.here[name] = true
		if len(m.here) == m.want {
			if m.together != nil {
				m.together()
			}
			close(met)
		}
	}
	waits = waits && m.want > 0
	m.mu.Unlock()
	if waits {
		select {
		case <-met:
		case <-r.Context().Done():
			return
		}
	}
	if c.steps >= len(script) {
		http.Error(w, fmt.Sprintf("%q has no step %d", name, c.steps), http.StatusBadRequest)
		return
	}
	step := ""
	for _, a := range script[c.steps][1:] {
		in, _ := json.Marshal(a.in)
		step += "also: " + a.tool + " " + string(in) + "\n"
	}
	in, _ := json.Marshal(script[c.steps][0].in)
	step = m.think + "call: " + script[c.steps][0].tool + "\n" + step + "\n" + string(in) + "\n"
	answer(w, r, body, step)
}

// answer has a scripted model answer a request with one step.
func answer(w http.ResponseWriter, r *http.Request, body []byte, step string) {
	s, err := modelserver.New([]byte("key: " + brainKey + "\n-- step --\n" + step))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.ServeHTTP(w, r)
}

// conversation is what a model is asked.
type conversation struct {
	// name is who asks: the strategy, the task of a sub-agent, or the last request.
	name string
	// requests are all of the conversation.
	requests     []string
	sub, planned bool
	// steps counts the answers to the last request, and results are those of its calls.
	steps   int
	results []string
}

// read reads a request to a model.
func read(body []byte) (c conversation) {
	var req struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	_ = json.Unmarshal(body, &req)
	for _, msg := range req.Messages {
		if msg.Role == "assistant" {
			c.steps++
			continue
		}
		for _, b := range blocksOf(msg.Content) {
			if b.Type == "tool_result" {
				text := ""
				for _, part := range blocksOf(b.Content) {
					text += part.Text
				}
				c.results = append(c.results, text)
				continue
			}
			said, isTask := strings.CutPrefix(b.Text, "Task:\n")
			_, request, isRequest := strings.Cut(b.Text, "Request:\n")
			if !isTask && !isRequest {
				continue
			}
			if c.sub = isTask; !isTask {
				said = request
			}
			c.name, _, _ = strings.Cut(strings.TrimSpace(said), "\n")
			c.requests = append(c.requests, c.name)
			if _, plan, ok := strings.Cut(b.Text, "Approach for this attempt: "); ok && !isTask {
				c.name, _, _ = strings.Cut(plan, "\n")
				if c.planned = true; strings.Contains(b.Text, "Continue earlier work on this request.") {
					c.name += " again"
				}
			}
			c.steps, c.results = 0, nil
		}
	}
	return c
}

// part is a part of a message.
type part struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
}

// blocksOf are the parts of a content, which may be a string.
func blocksOf(content json.RawMessage) (all []part) {
	if json.Unmarshal(content, &all) != nil {
		var text string
		_ = json.Unmarshal(content, &text)
		all = []part{{Type: "text", Text: text}}
	}
	return all
}

// began is how many sub-agents asked since begin.
func (m *crew) began() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.here)
}

// newWorld is a daemon with real sandboxes of both kinds whose model is a crew.
func newWorld(t *testing.T) (*world.World, *crew) {
	t.Helper()
	t.Parallel()
	m := newCrew(t)
	w := world.Open(t, world.Config{GVisor: true, Config: daemon.Config{Getenv: m.env}})
	w.Isolates(t, "")
	d, err := w.Client.Doctor(t.Context())
	if err != nil || !slices.ContainsFunc(d.Template.Tools, func(x api.Tool) bool { return x.Name == "python3" && x.Present }) {
		t.Skipf("this host has no python3: %v", err)
	}
	return w, m
}

// inEach runs a test in each isolation that this host has; in T1 in the faster one: test/conformance has what differs.
func inEach(t *testing.T, w *world.World, test func(t *testing.T, isolation string)) {
	for _, isolation := range tier.First(1, []string{"container", "gvisor"}) {
		t.Run(isolation, func(t *testing.T) {
			w.Isolates(t, isolation)
			test(t, isolation)
		})
	}
}
