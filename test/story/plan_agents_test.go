package story

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hortus.dev/test/modelserver"
)

// itemAgents are scripted agents that work at the same time. The request of an item names its agent: "[NAME] Change a.txt".
type itemAgents struct {
	t testing.TB
	// dir has the files that agents wait for, and NAME.asked of each agent that was asked for a step.
	dir string

	mu    sync.Mutex
	steps map[string][]step // by the name of the agent
}

var agentName = regexp.MustCompile(`\[([a-z0-9-]+)\] `)

// readAgents reads lines "NAME TOOL TEXT": the agent of that name calls the tool shell or finish with that text, after its earlier lines.
// A file NAME.asked is then in the directory of the test. "NAME wait FILE" waits for a file of the test first, and "NAME repeat TEXT" calls shell each time that it is asked.
func readAgents(t testing.TB, text, dir string) *itemAgents {
	t.Helper()
	a := &itemAgents{t: t, dir: dir, steps: map[string][]step{}}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(f) != 3 {
			t.Fatalf("agents: %q is not NAME TOOL TEXT", line)
		}
		s := step{tool: f[1], times: 1}
		switch f[1] {
		case "shell", "repeat":
			s.input = map[string]any{"command": f[2]}
		case "finish":
			s.input = map[string]any{"summary": f[2]}
		case "wait":
			s.want = f[2]
		default:
			t.Fatalf("agents: %q is no tool", f[1])
		}
		a.steps[f[0]] = append(a.steps[f[0]], s)
	}
	return a
}

// serve has the agents answer as the model "anthropic", until the test ends.
func (a *itemAgents) serve(g *garden) (env []string) {
	srv := httptest.NewServer(a)
	g.reach(srv.URL)
	a.t.Cleanup(func() {
		srv.CloseClientConnections() // an agent may wait
		srv.Close()
		a.mu.Lock()
		defer a.mu.Unlock()
		for name, steps := range a.steps {
			if len(steps) > 0 && steps[0].tool != "repeat" {
				a.t.Errorf("agent %s did not come to %s %v", name, steps[0].tool, steps[0].input)
			}
		}
	})
	return []string{"ANTHROPIC_BASE_URL=" + srv.URL, "ANTHROPIC_API_KEY=" + modelKey}
}

// ServeHTTP answers with the next step of the agent that a request names.
func (a *itemAgents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left
	}
	var s step
	if m := agentName.FindSubmatch(body); r.Method == http.MethodPost && m != nil {
		if s, err = a.next(r, string(m[1])); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	m, err := modelserver.New([]byte(scenario(a.t, s)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m.ServeHTTP(w, r)
}

func (a *itemAgents) next(r *http.Request, name string) (step, error) {
	for {
		a.mu.Lock()
		steps := a.steps[name]
		if len(steps) == 0 {
			a.mu.Unlock()
			a.t.Errorf("agent %s has no step left", name)
			return step{}, fmt.Errorf("agent %s has no step left", name)
		}
		s := steps[0]
		if s.tool != "repeat" {
			a.steps[name] = slices.Clone(steps[1:])
		}
		a.mu.Unlock()
		if err := os.WriteFile(filepath.Join(a.dir, name+".asked"), nil, 0o600); err != nil {
			return step{}, err
		}
		switch s.tool {
		case "wait":
			for file := filepath.Join(a.dir, s.want); ; {
				if _, err := os.Stat(file); err == nil {
					break
				}
				select {
				case <-time.After(10 * time.Millisecond):
				case <-r.Context().Done():
					return step{}, r.Context().Err()
				}
			}
		case "repeat":
			s.tool = "shell"
			return s, nil
		default:
			return s, nil
		}
	}
}

// agentsCmd is "agents FILE": see readAgents.
func agentsCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: agents FILE")
	}
	g := ts.Value("garden").(*garden)
	a := readAgents(g.t, ts.ReadFile(args[0]), ts.MkAbs("."))
	for _, v := range a.serve(g) {
		g.env = append(g.env, v)
		name, value, _ := strings.Cut(v, "=")
		ts.Setenv(name, value)
	}
}

// waitsCmd is "waits PATTERN hortus ARGS...": it runs the command until its stdout matches.
func waitsCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || args[1] != "hortus" {
		ts.Fatalf("usage: waits PATTERN hortus ARGS...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	g := ts.Value("garden").(*garden)
	until(g.t, args[0], func() string {
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			return err.Error()
		}
		if out := ts.ReadFile("stdout"); !pattern.MatchString(out) {
			return out
		}
		return ""
	})
}
