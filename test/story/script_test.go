package story

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/test/tier"
)

// TestScripts runs the stories of testdata. Besides testscript's own commands
// they have:
//
//	exits CODE [<FILE] [>FILE] COMMAND...   run it and want that exit code
//	hortus ARGS...                          exits 0 hortus ARGS...
//	json [-set NAME] FILE PATH [WANT]       look into a document: a.0.b, a.count
//	mcp TOOL [NAME=VALUE]...                start hortus mcp and call a tool, as a coding
//	                                        agent does; a VALUE can be JSON
//	keep NAME                               keep the last stdout in a variable
//	serve [NAME]                            hortus serve on a free port, as URL and,
//	                                        where it printed a key, KEY; what it
//	                                        said is the last stdout and stderr
//	served                                  wait until that has ended
//	gone                                    stop the daemon; nothing may be left
//	agents FILE                             agents that work at the same time, see readAgents
//	waits PATTERN hortus ARGS...            run it until its stdout matches
//	needs BACKEND CAPABILITY                skip where this host and build lack it
//	anyuser                                 see tier.AnyUser
//	light                                   see garden.light
//	unpooled                                no sandbox is booted ahead
//
// those of forgeCommands, and the conditions root, soak (see tier.Soak) and fleet (see TestFleetScripts).
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, false, func(t testing.TB, name string) *garden {
		if name == "user_first_run" {
			return newEmptyGarden(t)
		}
		return newGarden(t)
	})
}

// runScripts runs the stories of testdata, each in the garden that begin makes for it.
func runScripts(t *testing.T, fleet bool, begin func(t testing.TB, name string) *garden) {
	cmds := storyCommands()
	forgeCommands(cmds)
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			tb := e.T().(testing.TB)
			g := begin(tb, path.Base(tb.Name()))
			e.Values["garden"], e.Values["hub"] = g, &hubOfStory{}
			e.Vars = append(e.Vars, g.env...)
			// What must never get into a sandbox.
			e.Setenv("SECRET_TOKEN", "hunter2")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "soak":
				return tier.Soaking(), nil
			case "fleet":
				return fleet, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: cmds,
	})
}

// storyCommands are the commands of every story.
func storyCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits": exits,
		"hortus": func(ts *testscript.TestScript, neg bool, args []string) {
			exits(ts, neg, append([]string{"0", "hortus"}, args...))
		},
		"json": jsonCmd,
		"mcp":  mcpCmd,
		"keep": func(ts *testscript.TestScript, _ bool, args []string) {
			ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
		},
		"light":    func(ts *testscript.TestScript, _ bool, _ []string) { inGarden(ts, (*garden).light) },
		"unpooled": func(ts *testscript.TestScript, _ bool, _ []string) { inGarden(ts, (*garden).unpooled) },
		"needs":    needs,
		"anyuser":  func(ts *testscript.TestScript, _ bool, _ []string) { tier.AnyUser(ts.Value("garden").(*garden).t) },
		"serve":    serve, "served": served, "agents": agentsCmd, "waits": waitsCmd,
		"gone": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Value("garden").(*garden).end() },
	}
}

// inGarden changes the garden's environment before its first command.
func inGarden(ts *testscript.TestScript, change func(*garden)) {
	g := ts.Value("garden").(*garden)
	had := len(g.env)
	change(g)
	for _, v := range g.env[had:] {
		name, value, _ := strings.Cut(v, "=")
		ts.Setenv(name, value)
	}
}

// needs skips the story where a backend lacks a capability, with the reason.
func needs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: needs BACKEND CAPABILITY")
	}
	g := ts.Value("garden").(*garden)
	doctor := decode[admin.Doctor](g.t, g.must("doctor", "--json"))
	i := slices.IndexFunc(doctor.Backends, func(b api.BackendReport) bool { return b.Backend == args[0] })
	if i < 0 {
		g.t.Skipf("this build does not include backend %s", args[0])
	}
	for _, c := range []api.Capability{api.CapStart, api.Capability(args[1])} {
		if a, ok := doctor.Backends[i].Has(c); !ok {
			g.t.Skipf("%s has no %s here: %s", args[0], c, a.Reason)
		}
	}
}

// exits runs a command and wants an exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE [<FILE] [>FILE] COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	in, out := os.DevNull, ""
	for args = args[1:]; len(args) > 0; args = args[1:] {
		if f, ok := strings.CutPrefix(args[0], "<"); ok {
			in = f
		} else if f, ok := strings.CutPrefix(args[0], ">"); ok {
			out = f
		} else {
			break
		}
	}
	script := `exec "$@" <"$IN"`
	if out != "" {
		script = `exec "$@" <"$IN" >"$OUT"`
	}
	ts.Setenv("IN", in)
	ts.Setenv("OUT", out)
	code := 0
	if err := ts.Exec("/bin/sh", append([]string{"-c", script, "sh"}, args...)...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("%q: exit code %d, want %d", args, code, want)
	}
}

// jsonCmd looks into a JSON document.
func jsonCmd(ts *testscript.TestScript, neg bool, args []string) {
	name := ""
	if len(args) > 2 && args[0] == "-set" {
		name, args = args[1], args[2:]
	}
	if len(args) < 2 || len(args) > 3 || (name == "") == (len(args) == 2) {
		ts.Fatalf("usage: json [-set NAME] FILE PATH [WANT]")
	}
	doc := ts.ReadFile(args[0])
	dec := json.NewDecoder(strings.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		ts.Fatalf("not JSON: %v\n%s", err, doc)
	}
	if dec.More() {
		ts.Fatalf("more than one JSON document:\n%s", doc)
	}
	got := look(v, strings.Split(args[1], "."))
	switch {
	case name != "":
		ts.Setenv(name, got)
	case (got == args[2]) == neg:
		ts.Fatalf("%s is %q, want %q (not: %v)", args[1], got, args[2], neg)
	}
}

// look follows a path into a document. What is not there is "".
func look(v any, path []string) string {
	for _, p := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[p]
		case []any:
			if p == "count" {
				return strconv.Itoa(len(x))
			}
			i, err := strconv.Atoi(p)
			if err != nil || i < 0 || i >= len(x) {
				return ""
			}
			v = x[i]
		default:
			return ""
		}
	}
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case json.Number, bool:
		return fmt.Sprint(x)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b))
}

// TestReadme runs the commands of README literally: the two that need nothing
// prepared are run by continuous integration itself, the list of "Try it" here.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "## Try it\n")
	rest, _, ok2 := strings.Cut(rest, "\n## ")
	if !ok || !ok2 {
		t.Fatal("README has no section Try it")
	}
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_LISTEN=127.0.0.1:0") // README's port may be somebody's
	var lines []string
	for line := range strings.Lines(rest) {
		if l, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	if len(lines) < 6 {
		t.Fatalf("only %d commands in README", len(lines))
	}
	for _, line := range lines {
		want := 0
		if strings.Contains(line, "# exit 137") {
			want = 137
		}
		if strings.HasPrefix(line, "hortus serve") {
			g.serveUntilEnd()
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, "bash", "-c", line)
		cmd.Env, cmd.Stdin = g.env, strings.NewReader("echo in the shell\n")
		out, err := cmd.CombinedOutput()
		cancel()
		if code := exitOf(t, err); code != want {
			t.Errorf("%s: exit code %d, want %d\n%s", line, code, want, out)
		}
	}
}

// serveUntilEnd runs `hortus serve` until the test is over, and gives its address.
func (g *garden) serveUntilEnd() (url string) {
	g.t.Helper()
	cmd := exec.Command(binary, "serve")
	var said buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = g.env, &said, &said
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		r := g.run("daemon", "stop", "--force")
		if r.code != 0 {
			g.t.Errorf("daemon stop: %s", r)
		}
		// It says where it stands if it does not end.
		stuck := time.AfterFunc(patience, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
		defer stuck.Stop()
		if err := cmd.Wait(); err != nil {
			g.t.Errorf("hortus serve: %v\n%s", err, said.String())
		}
	})
	until(g.t, "hortus serve prints a first key", func() string {
		if out := said.String(); !strings.Contains(out, "export E2B_API_KEY=e2b_") {
			return "it said " + out
		}
		return ""
	})
	_, url, _ = strings.Cut(said.String(), "export E2B_API_URL=")
	url, _, _ = strings.Cut(url, "\n")
	return url
}
