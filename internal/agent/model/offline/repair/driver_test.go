package repair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/internal/agent/model"
)

// agentTools are the names of what the agent's loop offers.
var agentTools = func() []model.Tool {
	var out []model.Tool
	for _, n := range []string{"shell", "job", "view", "create", "str_replace", "insert", "search", "find", "outline", "finish"} {
		out = append(out, model.Tool{Name: n})
	}
	return out
}()

// worked is what a conversation came to.
type worked struct {
	steps            int
	summary, blocked string
	messages         []model.Message
}

// trials is what came of the edits that were tried.
func (w worked) trials() string {
	var out strings.Builder
	for _, m := range w.messages {
		if m.Role == model.RoleTool && reTried.MatchString(m.Text) {
			out.WriteString(m.Text + "\n")
		}
	}
	return out.String()
}

// drive lets the model work in a directory, with tools that do what those of the
// loop do.
func drive(t testing.TB, m *Agent, dir, message string) (worked, error) {
	t.Helper()
	return driveIn(t, m, dir, message, shellTool)
}

// driveIn is drive with another shell.
func driveIn(t testing.TB, m *Agent, dir, message string, shell func(t testing.TB, dir, command string, env map[string]string, limit time.Duration) string) (worked, error) {
	t.Helper()
	w := worked{messages: []model.Message{{Role: model.RoleUser, Text: message}}}
	for w.steps = 1; w.steps <= 60; w.steps++ {
		res, err := m.Generate(context.Background(), model.Request{Messages: w.messages, Tools: agentTools}, nil)
		if err != nil {
			return w, err
		}
		w.messages = append(w.messages, res.Message)
		if len(res.Message.Calls) == 0 {
			return w, nil
		}
		for _, c := range res.Message.Calls {
			var in struct {
				Command, Path, Old, New, Summary, Blocked string
				Env                                       map[string]string
				Timeout                                   int `json:"timeout_seconds"`
				From                                      int `json:"start_line"`
				To                                        int `json:"end_line"`
			}
			if err := json.Unmarshal(c.Input, &in); err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			text := ""
			switch c.Name {
			case "shell":
				text = shell(t, dir, in.Command, in.Env, time.Duration(max(in.Timeout, 120))*time.Second)
			case "view":
				text = viewTool(dir, in.Path, in.From, in.To)
			case "str_replace":
				text = replaceTool(dir, in.Path, in.Old, in.New)
			case "finish":
				w.summary, w.blocked = in.Summary, in.Blocked
				return w, nil
			default:
				t.Fatalf("it calls %s", c.Name)
			}
			w.messages = append(w.messages, model.Message{Role: model.RoleTool, CallID: c.ID, Text: text})
		}
	}
	return w, errors.New("it goes on for ever")
}

func shellTool(t testing.TB, dir, command string, env map[string]string, limit time.Duration) string {
	if limit == 0 {
		limit = 5 * time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	// A user's own directories, so that the compiler's cache is used.
	cmd.Env = append(os.Environ(), "PATH="+interpreterPath())
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	s := out.String()
	if len(s) > 10000 {
		s = s[:5000] + "\n[... cut ...]\n" + s[len(s)-5000:]
	}
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return s + "[killed: timeout]"
	case errors.As(err, &exit):
		return s + fmt.Sprintf("[exit code %d]", exit.ExitCode())
	case err != nil:
		t.Fatal(err)
	}
	return s + "[exit code 0]"
}

// interpreterPath is PATH with the directories of python3 and node before their shims.
var interpreterPath = sync.OnceValue(func() string {
	dirs := []string{os.Getenv("PATH")}
	if out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output(); err == nil {
		dirs = append([]string{filepath.Dir(strings.TrimSpace(string(out)))}, dirs...)
	}
	if p, err := exec.LookPath("node"); err == nil {
		dirs = append([]string{filepath.Dir(p)}, dirs...)
	}
	return strings.Join(dirs, ":")
})

func viewTool(dir, path string, from, to int) string {
	b, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for i, l := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		if i+1 >= from && i+1 <= to {
			fmt.Fprintf(&out, "%6d\t%s\n", i+1, l)
		}
	}
	return out.String()
}

func replaceTool(dir, path, old, to string) string {
	p := filepath.Join(dir, path)
	b, err := os.ReadFile(p)
	if err != nil {
		return err.Error()
	}
	if n := strings.Count(string(b), old); n != 1 {
		return fmt.Sprintf("the text stands %d times in %s", n, path)
	}
	if err := os.WriteFile(p, []byte(strings.Replace(string(b), old, to, 1)), 0o644); err != nil {
		return err.Error()
	}
	return "replaced"
}

// briefOf is a first message as the loop writes it.
func briefOf(request, gate string) string {
	return "Request:\n" + request + "\n\nGate command: " + gate + "\n\nThe tree:\n.\n"
}
