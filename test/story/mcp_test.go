package story

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"hortus.dev/test/tier"
)

// mcpCmd is a coding agent that starts "hortus mcp", which starts the daemon, and calls one tool. Its stdout is the result, or why the
// call failed.
func mcpCmd(ts *testscript.TestScript, neg bool, args []string) {
	g := ts.Value("garden").(*garden)
	if len(args) == 0 {
		ts.Fatalf("usage: mcp TOOL [NAME=VALUE]...")
	}
	arguments := map[string]any{}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			v = value
		}
		arguments[name] = v
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	cmd := exec.Command(g.program, "mcp")
	cmd.Env, cmd.Stderr = g.env, ts.Stderr()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	ts.Check(err)
	defer s.Close()
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: args[0], Arguments: arguments})
	ts.Check(err)
	text := res.Content[0].(*mcp.TextContent).Text
	fmt.Fprintln(ts.Stdout(), text)
	if res.IsError != neg {
		ts.Fatalf("%v: %s", args, text)
	}
}

// TestCodingAgent is a coding agent that starts "hortus mcp", which starts the daemon: it creates a sandbox, tries two changes in forks
// and compares them, and goes on after the daemon was stopped.
func TestCodingAgent(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.Command(binary, "mcp")
	cmd.Env, cmd.Stderr = g.env, os.Stderr
	s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	call := func(tool string, args map[string]any) map[string]any {
		t.Helper()
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		if res.IsError {
			t.Fatalf("%s: %s", tool, res.Content[0].(*mcp.TextContent).Text)
		}
		return res.StructuredContent.(map[string]any)
	}
	box := call("sandbox_create", nil)["sandbox_id"]
	call("exec", map[string]any{"sandbox_id": box, "command": "echo base > file"})
	var found []string
	for i, c := range call("sandbox_fork", map[string]any{"sandbox_id": box, "count": 2})["children"].([]any) {
		x := call("exec", map[string]any{"sandbox_id": c.(map[string]any)["sandbox_id"], "command": fmt.Sprintf("echo change %d >> file; cat file", i)})
		found = append(found, x["output"].(string))
	}
	if want := []string{"base\nchange 0\n", "base\nchange 1\n"}; fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("the forks have %q", found)
	}
	if list := g.must("sandbox", "ls"); !strings.Contains(list, box.(string)) {
		t.Errorf("a person does not see the sandbox:\n%s", list)
	}
	g.must("daemon", "stop", "--force")
	if again := call("sandbox_create", nil); again["state"] != "running" {
		t.Errorf("after the daemon was stopped: %v", again)
	}
}
