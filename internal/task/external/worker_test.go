package external

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/runtime"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/repo"
)

// peerVariable makes the test binary an agent that behaves as its value says.
const peerVariable = "HORTUS_TEST_PEER"

func TestMain(m *testing.M) {
	if how := os.Getenv(peerVariable); how != "" {
		if strings.HasPrefix(how, "serve") {
			serverPeer(how)
		}
		peer(how)
		return
	}
	os.Exit(m.Run())
}

// peer is an agent on the standard streams. Its session remembers the messages in a file, so that a later process can
// continue it.
func peer(how string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	say := func(format string, args ...any) { fmt.Printf(`{"jsonrpc":"2.0",`+format+"}\n", args...) }
	prompt := ""
	update := func(text string) { say(`"method":"session/update","params":{"sessionId":"s","update":%s}`, text) }
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Prompt []struct{ Text string }
				ModeID string
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case "initialize":
			if how == "silent" {
				continue
			}
			fmt.Fprintln(os.Stderr, "a reason on stderr")
			if how == "dies" {
				os.Exit(3)
			}
			say(`"id":%s,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}`, m.ID)
		case "session/load":
			if strings.Contains(how, "forgets") {
				say(`"id":%s,"error":{"code":-32602,"message":"unknown session"}`, m.ID)
				continue
			}
			update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a replay"}}`)
			say(`"id":%s,"result":null`, m.ID)
		case "session/new":
			say(`"id":%s,"result":{"sessionId":"s"}`, m.ID)
		case "session/set_mode":
			say(`"id":%s,"result":null`, m.ID)
		case "session/cancel":
			if how == "aborts" {
				update(`{"sessionUpdate":"tool_call_update","toolCallId":"c2","status":"completed"}`)
				say(`"id":%s,"result":{"stopReason":"cancelled"}`, prompt)
				continue
			}
			say(`"id":99,"method":"x"`)
		case "session/prompt":
			prompt = string(m.ID)
			turn(how, string(m.ID), m.Params.Prompt[0].Text, say, update)
		}
	}
}

// turn answers a message.
func turn(how, id, text string, say func(string, ...any), update func(string)) {
	f, err := os.OpenFile(os.Getenv("HOME")+"/said", os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, text)
	before, _ := os.ReadFile(f.Name())
	update(fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%d bytes were said\u001b[2J"}}`, len(before)))
	call := func(n int, status string) {
		update(fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"c%d","title":"Write","kind":"edit","status":"in_progress","rawInput":{"n":%d}}`, n, n))
		if status != "" {
			update(fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"c%d","status":%q,"content":[{"type":"content","content":{"type":"text","text":"0123456789"}}]}`, n, status))
		}
	}
	switch how {
	case "calls":
		call(1, "completed")
		call(2, "failed")
	case "endless":
		for n := 1; ; n++ {
			call(n, "completed")
			time.Sleep(time.Millisecond) // or it would be left for not reading
		}
	case "waits", "aborts":
		call(1, "completed")
		call(2, "")
		return
	case "loses", "loses and forgets":
		if strings.Count(string(before), "Mend it") < 3 {
			call(1, "completed")
			call(2, "")
			os.Exit(0)
		}
	case "error":
		say(`"id":%s,"error":{"code":-32603,"message":"the model said no"}`, id)
		return
	case "refuses":
		say(`"id":%s,"result":{"stopReason":"refusal"}`, id)
		return
	case "odd":
		say(`"id":%s,"result":{"stopReason":"whatever"}`, id)
		return
	}
	say(`"id":%s,"result":{"stopReason":"end_turn","usage":{"inputTokens":100,"outputTokens":20,"cachedReadTokens":30}}`, id)
}

// process is an agent that runs on this host.
type process struct {
	io.Reader
	io.WriteCloser
	cmd  *exec.Cmd
	said *bytes.Buffer
	once sync.Once
}

func (p *process) Close() error {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()         // it was killed
	})
	return nil
}

func (p *process) Said() string { return p.said.String() }

func (p *process) Exec() api.Exec {
	return api.Exec{State: api.ExecExited, Exit: api.Exit{Code: p.cmd.ProcessState.ExitCode()}}
}

// facts are the events of a task.
type facts struct {
	mu  sync.Mutex
	all []string
	on  func(t api.EventType)
}

func (f *facts) Emit(_ context.Context, t api.EventType, data any) {
	b, _ := json.Marshal(data)
	f.mu.Lock()
	f.all = append(f.all, string(t)+" "+string(b))
	f.mu.Unlock()
	if f.on != nil {
		f.on(t)
	}
}

// place is a sandbox that starts programs on this host.
type place struct {
	tool.Sandbox
	talk func(ctx context.Context, req api.ExecRequest) (repo.Conn, error)
}

func (p place) Talk(ctx context.Context, req api.ExecRequest) (repo.Conn, error) {
	return p.talk(ctx, req)
}

func (place) Dial(context.Context, int) (net.Conn, error) { return nil, errors.ErrUnsupported }

// stage makes the worker of a task with an agent that behaves in a way.
func stage(t *testing.T, how string, budget api.Budget, f *facts, transcript io.Writer) *worker {
	t.Helper()
	home := t.TempDir()
	talk := func(_ context.Context, req api.ExecRequest) (repo.Conn, error) {
		cmd := exec.Command(req.Args[0], req.Args[1:]...)
		cmd.Env = os.Environ()
		for k, v := range req.Env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		p := &process{Reader: out, WriteCloser: in, cmd: cmd, said: &bytes.Buffer{}}
		cmd.Stderr = p.said
		return p, cmd.Start()
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launch := runtime.Launch{Args: []string{self}, Env: map[string]string{peerVariable: how, "HOME": home}}
	w := newWorker(runtime.Runtime{Name: "peer", Package: "peer", Version: "1", Mode: "free"}, runtime.Preset{Model: "m"}, launch,
		repo.WorkerConfig{Sandbox: place{talk: talk}, Budget: budget, Emit: f, Transcript: transcript}, time.Now)
	w.grace = 10 * time.Millisecond // no peer ends a turn that is canceled
	return w
}

// TestRounds: two rounds are two processes and one session; their events, reports and transcript say what happened.
func TestRounds(t *testing.T) {
	f, script := &facts{}, &bytes.Buffer{}
	w := stage(t, "calls", api.Budget{}, f, script)
	one := w.Run(t.Context(), "the request")
	if one.Stop != api.StopEnded || one.Steps != 2 || one.Err != nil || one.Model != "peer/m" || one.Finish != nil {
		t.Errorf("%+v", one)
	}
	if !slices.Equal(one.Completed, []string{"edit: Write", "edit: Write"}) || one.Skipped != nil {
		t.Errorf("completed %q, skipped %q", one.Completed, one.Skipped)
	}
	if u := one.Usage; u.InputTokens != 130 || u.CachedTokens != 30 || u.OutputTokens != 20 || u.Unpriced != 1 {
		t.Errorf("%+v", u)
	}
	two := w.Run(t.Context(), "The gate failed")
	first, second := 0, 0
	if _, err := fmt.Sscanf(one.Text, "%d bytes", &first); err != nil {
		t.Fatalf("%q", one.Text)
	}
	if _, err := fmt.Sscanf(two.Text, "%d bytes", &second); err != nil || second <= first || first <= len("the request") {
		t.Errorf("the second round does not continue the first: %q, %q", one.Text, two.Text)
	}
	all := strings.Join(f.all, "\n")
	for _, want := range []string{`task.tool {"round":1,"step":1,"tool":"edit","input":"{\"n\":1}","output":"0123456789","ms":`, `"step":2,"tool":"edit","input":"{\"n\":2}","output":"0123456789","failed":true`,
		`task.model {"role":"agent","model":"peer/m"`, `"round":2,"step":3`} {
		if !strings.Contains(all, want) {
			t.Errorf("no event %s in\n%s", want, all)
		}
	}
	for _, bad := range []string{"a replay", `\u001b`} {
		if strings.Contains(all, bad) {
			t.Errorf("the events have %q:\n%s", bad, all)
		}
	}
	entries := 0
	for line := range strings.Lines(script.String()) {
		var e loop.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		entries++
	}
	if entries != 2*(1+1+4+1) {
		t.Errorf("%d entries:\n%s", entries, script)
	}
}

// TestStops: every way in which a round can end has its reason.
func TestStops(t *testing.T) {
	for _, tt := range []struct {
		how    string
		budget api.Budget
		stop   api.StopReason
		says   string
		err    bool
	}{
		{"ends", api.Budget{Steps: 1, Tokens: 150, OutputBytes: 1}, api.StopEnded, "ended its turn", false},
		{"ends", api.Budget{Tokens: 149}, api.StopTokens, "150 of 149", false},
		{"endless", api.Budget{Steps: 5}, api.StopSteps, "5 calls", false},
		{"endless", api.Budget{OutputBytes: 100}, api.StopOutput, "110 bytes", false},
		{"waits", api.Budget{WallMS: 1500}, api.StopWall, "1.5s", false},
		{"silent", api.Budget{WallMS: 300}, api.StopWall, "300ms", false},
		{"error", api.Budget{}, api.StopModel, "the model said no", true},
		{"refuses", api.Budget{}, api.StopDeclined, "declined", false},
		{"odd", api.Budget{}, api.StopModel, "unknown reason", true},
		{"dies", api.Budget{}, api.StopModel, "exit code 3; the agent ended its output): a reason on stderr", true},
	} {
		t.Run(tt.how, func(t *testing.T) {
			rep := stage(t, tt.how, tt.budget, &facts{}, io.Discard).Run(t.Context(), "go")
			if rep.Stop != tt.stop || !strings.Contains(rep.Why, tt.says) || (rep.Err != nil) != tt.err {
				t.Errorf("%s %q %v, want %s %q", rep.Stop, rep.Why, rep.Err, tt.stop, tt.says)
			}
		})
	}
}

// TestCanceled: the end of the task's context ends the agent, and the report says what was done and what was not, whatever the
// agent says of a call that it cut.
func TestCanceled(t *testing.T) {
	for how, grace := range map[string]time.Duration{"waits": 10 * time.Millisecond, "aborts": time.Minute} {
		ctx, cancel := context.WithCancel(t.Context())
		f := &facts{on: func(e api.EventType) {
			if e == api.EventTool {
				cancel()
			}
		}}
		w := stage(t, how, api.Budget{}, f, io.Discard)
		w.grace = grace
		rep := w.Run(ctx, "go")
		if rep.Stop != api.StopCanceled || rep.Err == nil || !slices.Equal(rep.Completed, []string{"edit: Write"}) || len(rep.Skipped) > 1 {
			t.Errorf("%s: %+v", how, rep)
		}
		if how == "aborts" && len(rep.Skipped) != 1 {
			t.Errorf("a call that was cut counts as completed: %+v", rep)
		}
	}
}

// under is a process whose end is that of a sandbox.
type under struct {
	repo.Conn
	exec api.Exec
}

func (u under) Exec() api.Exec { return u.exec }

// TestReplaced: an agent whose sandbox is lost begins its turn again in another one, in its session if it still has it, and is
// told. One that ends by itself, or at a limit, is an error, and so is a sandbox that cannot be replaced.
func TestReplaced(t *testing.T) {
	killed := api.Exec{State: api.ExecUnknown, Exit: api.Exit{Code: -1, Cause: api.CauseKilled}}
	no := api.Errorf(api.KindUnavailable, "no room")
	for _, c := range []struct {
		name, how string
		end       api.Exec
		unable    []error // of the calls of Replace; nil for those behind
		none      bool    // nobody replaces
		stop      api.StopReason
		says      string
		replaced  int
		turns     int
	}{
		{"twice", "loses", killed, nil, false, api.StopEnded, "ended its turn", 2, 3},
		{"the session is gone, too", "loses and forgets", killed, nil, false, api.StopEnded, "ended its turn", 2, 3},
		{"at the second try", "loses", killed, []error{no}, false, api.StopEnded, "ended its turn", 3, 3},
		{"too often", "loses", killed, []error{nil, no, no}, false, api.StopSandbox, "could not be replaced: no room", 3, 2},
		{"never", "loses", killed, []error{no, no, no}, false, api.StopSandbox, "could not be replaced: no room", 3, 1},
		{"by nobody", "loses", killed, nil, true, api.StopSandbox, "ended: killed", 0, 1},
		{"its own end", "loses", api.Exec{State: api.ExecExited}, nil, false, api.StopModel, "stopped (exit code 0", 0, 1},
		{"its time was over", "loses", api.Exec{State: api.ExecUnknown, Exit: api.Exit{Code: -1, Cause: "expired"}}, nil, false, api.StopModel, "stopped (expired", 0, 1},
		{"a limit", "loses", api.Exec{State: api.ExecUnknown, Exit: api.Exit{Code: -1, Cause: api.CauseTimeout}}, nil, false, api.StopModel, "stopped (timeout", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, script := &facts{}, &bytes.Buffer{}
			w := stage(t, c.how, api.Budget{}, f, script)
			talk, replaced := w.desk.Sandbox.Talk, 0
			w.desk.Sandbox = place{talk: func(ctx context.Context, req api.ExecRequest) (repo.Conn, error) {
				conn, err := talk(ctx, req)
				return under{conn, c.end}, err
			}}
			if !c.none {
				w.desk.Replace = func(_ context.Context, n int, lost error) error {
					if replaced++; n != replaced || api.KindOf(lost) != api.KindUnavailable {
						t.Errorf("call %d is number %d: %v", replaced, n, lost)
					}
					if n <= len(c.unable) {
						return c.unable[n-1]
					}
					return nil
				}
			}
			rep := w.Run(t.Context(), "Mend it")
			if rep.Stop != c.stop || !strings.Contains(rep.Why, c.says) || (rep.Err != nil) != (c.stop != api.StopEnded) || replaced != c.replaced {
				t.Errorf("%s %q %v after %d calls of Replace", rep.Stop, rep.Why, rep.Err, replaced)
			}
			said, err := os.ReadFile(filepath.Join(w.launch.Env["HOME"], "said"))
			if err != nil {
				t.Fatal(err)
			}
			if got, told := strings.Count(string(said), "Mend it"), strings.Count(string(said), "Your sandbox was lost"); got != c.turns || told != c.turns-1 {
				t.Errorf("%d turns, of which %d were told:\n%s", got, told, said)
			}
			var completed, skipped []string
			for range min(c.turns, 2) {
				completed, skipped = append(completed, "edit: Write"), append(skipped, "edit: Write")
			}
			if !slices.Equal(rep.Completed, completed) || !slices.Equal(rep.Skipped, skipped) || rep.Steps != 2*len(completed) {
				t.Errorf("completed %q, skipped %q, %d steps", rep.Completed, rep.Skipped, rep.Steps)
			}
			if got := strings.Count(script.String(), `"kind":"user"`); got != c.turns {
				t.Errorf("%d messages in the transcript:\n%s", got, script)
			}
		})
	}
}

// TestUnreached: a sandbox that is gone before the agent starts is replaced; what an answer of it says is an error.
func TestUnreached(t *testing.T) {
	for kind, stop := range map[api.Kind]api.StopReason{api.KindUnavailable: api.StopEnded, api.KindInvalid: api.StopModel} {
		w := stage(t, "ends", api.Budget{}, &facts{}, &bytes.Buffer{})
		talk, gone := w.desk.Sandbox.Talk, true
		w.desk.Sandbox = place{talk: func(ctx context.Context, req api.ExecRequest) (repo.Conn, error) {
			if gone {
				return nil, api.Errorf(kind, "no")
			}
			return talk(ctx, req)
		}}
		w.desk.Replace = func(context.Context, int, error) error { gone = false; return nil }
		if rep := w.Run(t.Context(), "go"); rep.Stop != stop {
			t.Errorf("%s: %s %s", kind, rep.Stop, rep.Why)
		}
	}
}

// TestFresh: a fresh agent has a session of its own, is told the rules, and has what is left of the budgets. The control continues the session,
// which this agent forgets.
func TestFresh(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		script := &bytes.Buffer{}
		w := stage(t, "forgets", api.Budget{Tokens: 299}, &facts{}, script)
		if one := w.Run(t.Context(), "the request"); one.Stop != api.StopEnded {
			t.Fatalf("%+v", one)
		}
		want, told := api.StopModel, 1
		if fresh {
			w.Fresh()
			want, told = api.StopTokens, 2
		}
		if two := w.Run(t.Context(), "the request"); two.Stop != want {
			t.Errorf("fresh %v: %s, %v", fresh, two.Stop, two.Err)
		}
		if n := strings.Count(script.String(), "You work on the repository in /workspace"); n != told || !strings.Contains(script.String(), `"round":2`) {
			t.Errorf("fresh %v: the rules were said %d times:\n%s", fresh, n, script)
		}
	}
}
