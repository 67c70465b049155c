package daemon

import (
	"bytes"
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

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/modelserver"
	testtools "hortus.dev/test/tools"
)

// crew is a model of agents and of their sub-agents in copies. Each follows a script, by how often it answered: an agent the one of its
// strategy or else of its request, a sub-agent the one of its task.
type crew struct {
	t *testing.T
	*httptest.Server
	scripts map[string][][]act

	mu sync.Mutex
	// want sub-agents must have asked before one gets its first answer; met is closed then. together is called before that, with mu.
	want     int
	here     map[string]bool
	met      chan struct{}
	together func()
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
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
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
	m.here, m.met, m.got = map[string]bool{}, make(chan struct{}), map[string][]string{}
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
	name, sub, steps, results := history(body)
	m.mu.Lock()
	script, met := m.scripts[name], m.met
	m.got[name] = results
	if sub && !m.here[name] {
		m.here[name] = true
		if len(m.here) == m.want {
			if m.together != nil {
				m.together()
			}
			close(met)
		}
	}
	waits := sub && m.want > 0
	m.mu.Unlock()
	if waits {
		select {
		case <-met:
		case <-r.Context().Done():
			return
		}
	}
	if steps >= len(script) {
		http.Error(w, fmt.Sprintf("%q has no step %d", name, steps), http.StatusBadRequest)
		return
	}
	step := ""
	for _, a := range script[steps][1:] {
		in, _ := json.Marshal(a.in)
		step += "also: " + a.tool + " " + string(in) + "\n"
	}
	in, _ := json.Marshal(script[steps][0].in)
	step = "call: " + script[steps][0].tool + "\n" + step + "\n" + string(in) + "\n"
	s, err := modelserver.New([]byte("key: " + brainKey + "\n-- step --\n" + step))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.ServeHTTP(w, r)
}

// history returns who asks, whether it is a sub-agent in a copy, how often it answered, and what its calls returned, of its last request.
func history(body []byte) (name string, sub bool, steps int, results []string) {
	var req struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	_ = json.Unmarshal(body, &req)
	for _, msg := range req.Messages {
		if msg.Role == "assistant" {
			steps++
			continue
		}
		for _, c := range blocksOf(msg.Content) {
			if c.Type == "tool_result" {
				text := ""
				for _, part := range blocksOf(c.Content) {
					text += part.Text
				}
				results = append(results, text)
				continue
			}
			said, isTask := strings.CutPrefix(c.Text, "Task:\n")
			_, request, isRequest := strings.Cut(c.Text, "Request:\n")
			if !isTask && !isRequest {
				continue
			}
			if sub = isTask; !sub {
				said = request
			}
			name, _, _ = strings.Cut(strings.TrimSpace(said), "\n")
			if _, plan, ok := strings.Cut(c.Text, "Approach for this attempt: "); ok && !sub {
				name, _, _ = strings.Cut(plan, "\n")
			}
			steps, results = 0, nil
		}
	}
	return name, sub, steps, results
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

// crewTown is a daemon with real sandboxes whose model is a crew.
func crewTown(t *testing.T) (*town, *client.Client, *crew) {
	t.Helper()
	m := newCrew(t)
	w := newTownOf(t, Config{Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Runsc: filepath.Join(testtools.Dir(t), testtools.Runsc), Getenv: m.env})
	v := &vault{t: t, w: w}
	v.onSocket()
	isolated(t, v.c)
	box, err := v.c.Sandboxes.Create(t.Context(), api.CreateSandbox{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	needs(t, box, "python3")
	if _, err := box.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w, v.c, m
}

// inEach runs a test in each isolation that this host has.
func inEach(t *testing.T, c *client.Client, test func(t *testing.T, isolation string)) {
	for _, isolation := range []string{"container", "gvisor"} {
		t.Run(isolation, func(t *testing.T) {
			if d, err := c.Doctor(t.Context()); err != nil || isolation == "gvisor" && d.Auto != "gvisor" {
				t.Skipf("no gvisor here: %s, %v", d.AutoWhy, err)
			}
			test(t, isolation)
		})
	}
}

// began is how many sub-agents asked since begin.
func (m *crew) began() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.here)
}
