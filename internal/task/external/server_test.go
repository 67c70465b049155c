package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/agent/runtime"
	"hortus.dev/internal/agent/tool"
	"hortus.dev/internal/task/repo"
)

// serverPeer is an agent that is a server. Its messages are in a file, so that a later process can continue the session.
func serverPeer(how string) {
	fmt.Fprintln(os.Stderr, "a reason on stderr")
	said := filepath.Join(os.Getenv("HOME"), "said")
	switch how {
	case "serve-dies":
		os.Exit(3)
	case "serve-silent":
		if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
			_, _ = l.Accept() // nobody comes
		}
	case "serve-floods":
		for {
			fmt.Println("not a port")
		}
	}
	var mu sync.Mutex
	busy, n, stream := false, 0, make(chan string, 100)
	var messages []string
	mux := http.NewServeMux()
	on := func(pattern string, h func(r *http.Request) string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if _, pw, _ := r.BasicAuth(); pw == "" || pw != os.Getenv(runtime.Password) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out := h(r)
			if out == "" {
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprint(w, out)
		})
	}
	on("GET /global/health", func(*http.Request) string { return `{"healthy":true,"version":"1"}` })
	on("POST /session", func(*http.Request) string { return `{"id":"ses_1"}` })
	on("GET /session/ses_1", func(*http.Request) string {
		if _, err := os.Stat(said); err != nil || how == "serve-forgets" && n == 0 {
			return ""
		}
		return `{"id":"ses_1"}`
	})
	on("GET /session/status", func(*http.Request) string {
		if busy {
			return `{"ses_1":{"type":"busy"}}`
		}
		return `{}`
	})
	on("GET /session/ses_1/message", func(*http.Request) string {
		return "[" + strings.Join(messages[max(0, len(messages)-1):], ",") + "]"
	})
	on("POST /session/ses_1/abort", func(*http.Request) string { busy = false; return "true" })
	on("POST /session/ses_1/prompt_async", func(r *http.Request) string {
		f, err := os.OpenFile(said, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		if _, err := io.Copy(f, r.Body); err != nil {
			panic(err)
		}
		if how == "serve-stops" {
			os.Exit(4)
		}
		n++
		info := fmt.Sprintf(`{"id":"msg_%d","role":"assistant","time":{"completed":1},"finish":"stop","tokens":{"input":100,"output":20,"cache":{"read":30}}}`, n)
		part := fmt.Sprintf(`{"id":"prt_%d","messageID":"msg_%d","type":"text","text":"process %d","time":{"end":1}}`, n, n, os.Getpid())
		call := fmt.Sprintf(`{"id":"prt_c%d","messageID":"msg_%d","type":"tool","tool":"write","state":{"status":"running","input":{"n":%d}}}`, n, n, n)
		stream <- `{"type":"message.updated","properties":{"sessionID":"ses_1","info":` + strings.Replace(info, `"completed":1`, "", 1) + `}}`
		stream <- `{"type":"message.part.updated","properties":{"sessionID":"ses_1","part":` + call + `}}`
		if how == "serve-waits" {
			busy = true
			return "{}"
		}
		messages = append(messages, `{"info":`+info+`,"parts":[`+strings.Replace(call, "running", "completed", 1)+`,`+part+`]}`)
		stream <- `{"type":"session.idle","properties":{"sessionID":"ses_1"}}`
		return "{}"
	})
	mux.HandleFunc("GET /event", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: {\"type\":\"server.connected\"}\n\n")
		for {
			w.(http.Flusher).Flush()
			select {
			case e := <-stream:
				fmt.Fprintf(w, "data: %s\n\n", e)
			case <-r.Context().Done():
				return
			}
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("Warning: something\nopencode server listening on http://%s\n", l.Addr())
	panic(http.Serve(l, mux))
}

// yard is a sandbox whose programs are processes of this host, and whose files are in memory.
type yard struct {
	tool.Sandbox
	mu      sync.Mutex
	files   map[string][]byte
	jobs    []*task
	started int
}

// task is a process of a yard.
type task struct {
	tool.Job
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	out  bytes.Buffer
}

// Write takes output.
func (j *task) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Write(p)
}

func (j *task) Output(_ int64, most int) ([]byte, int64, bool) {
	over := false
	select {
	case <-j.done:
		over = true
	default:
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	p := bytes.Clone(j.out.Bytes()[:min(most, j.out.Len())])
	return p, int64(len(p)), over
}

func (j *task) Wait(ctx context.Context) error {
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *task) Exec() api.Exec {
	return api.Exec{State: api.ExecExited, Exit: api.Exit{Code: j.cmd.ProcessState.ExitCode()}}
}

func (j *task) Close() {
	_ = j.cmd.Process.Kill() // it may have ended
	<-j.done
}

func (y *yard) Start(_ context.Context, req api.ExecRequest) (tool.Job, error) {
	cmd := exec.Command(req.Args[0], req.Args[1:]...)
	cmd.Env = os.Environ()
	for k, v := range req.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	j := &task{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = j, j
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // its state says how it ended
		close(j.done)
	}()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.started++
	y.jobs = append(y.jobs, j)
	return j, nil
}

func (y *yard) Talk(context.Context, api.ExecRequest) (repo.Conn, error) {
	return nil, errors.ErrUnsupported
}

func (y *yard) Dial(ctx context.Context, port int) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprint("127.0.0.1:", port))
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, api.Errorf(api.KindUnavailable, "port %d: %w", port, envd.ErrPortClosed)
	}
	return c, err
}

func (y *yard) ReadFile(_ context.Context, path string, most int64) ([]byte, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	b, ok := y.files[path]
	switch {
	case !ok:
		return nil, api.Errorf(api.KindNotFound, "no %s", path)
	case int64(len(b)) > most:
		return nil, api.Errorf(api.KindExhausted, "%s is long", path)
	}
	return b, nil
}

func (y *yard) WriteFile(_ context.Context, path string, content []byte, _ bool) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.files[path] = content
	return nil
}

// end ends the sandbox.
func (y *yard) end() {
	y.mu.Lock()
	jobs := y.jobs
	y.files, y.jobs = map[string][]byte{}, nil
	y.mu.Unlock()
	for _, j := range jobs {
		j.Close()
	}
}

// scene makes the worker of a task with a server that behaves in a way.
func scene(t *testing.T, how string, y *yard, d repo.WorkerConfig) *worker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	y.end()
	t.Cleanup(y.end)
	d.Sandbox = y
	if d.Emit == nil {
		d.Emit = &facts{}
	}
	d.Transcript = io.Discard
	launch := runtime.Launch{Args: []string{self}, Env: map[string]string{peerVariable: how, "HOME": t.TempDir()}}
	w := newWorker(runtime.Runtime{Name: "peer", Package: "peer", Version: "1", Serves: true}, runtime.Preset{Model: "m"}, launch, d, time.Now)
	w.grace = time.Second
	return w
}

// next is the worker of the next turn.
func (w *worker) next() *worker {
	d := w.desk
	d.Session, d.Past = w.Session(), "Person: the first message"
	return newWorker(w.runtime, w.preset, w.launch, d, time.Now)
}

// TestServerStays: rounds and turns in a sandbox have one server, and another sandbox has another one, which continues the
// session. One that has forgotten it gets the conversation as text.
func TestServerStays(t *testing.T) {
	for how, past := range map[string]bool{"serve": false, "serve-forgets": true} {
		t.Run(how, func(t *testing.T) {
			y, f := &yard{}, &facts{}
			w := scene(t, how, y, repo.WorkerConfig{Emit: f})
			one := w.Run(t.Context(), "the first message")
			if one.Stop != api.StopEnded || w.Session() != "ses_1" || one.Steps != 1 || one.Usage.InputTokens != 130 || one.Usage.CachedTokens != 30 || one.Usage.OutputTokens != 20 {
				t.Fatalf("%+v, session %q", one, w.Session())
			}
			two := w.Run(t.Context(), "The gate failed")
			w = w.next()
			three := w.Run(t.Context(), "the third message")
			if two.Text != one.Text || three.Text != one.Text || y.started != 1 || !strings.HasPrefix(one.Text, "process ") {
				t.Errorf("%d servers: %q, %q, %q", y.started, one.Text, two.Text, three.Text)
			}
			y.end() // the sandbox
			w = w.next()
			four := w.Run(t.Context(), "the fourth message")
			if four.Stop != api.StopEnded || four.Text == one.Text || y.started != 2 || w.Session() != "ses_1" {
				t.Errorf("%d servers: %+v", y.started, four)
			}
			said, err := os.ReadFile(filepath.Join(w.launch.Env["HOME"], "said"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(said), "Person: the first message"); got != past {
				t.Errorf("the conversation as text: %v, want %v:\n%s", got, past, said)
			}
			for _, want := range []string{"the first message", "The gate failed", "the third message", "the fourth message"} {
				if !strings.Contains(string(said), want) {
					t.Errorf("%q was not said:\n%s", want, said)
				}
			}
			all := strings.Join(f.all, "\n")
			for _, want := range []string{`task.tool {"round":1,"step":1,"tool":"edit","input":"{\"n\":1}"`, `"round":2,"step":2`, `task.model {"role":"agent","model":"peer/m"`} {
				if !strings.Contains(all, want) {
					t.Errorf("no event %s in\n%s", want, all)
				}
			}
		})
	}
	// Within a task a session that is gone is an error.
	y := &yard{}
	w := scene(t, "serve-forgets", y, repo.WorkerConfig{})
	w.Run(t.Context(), "one")
	y.end()
	if rep := w.Run(t.Context(), "two"); rep.Stop != api.StopModel || rep.Err == nil {
		t.Errorf("%+v", rep)
	}
}

// TestServerNotes: a note that does not lead to the server leads to another server, and never further than the sandbox. The
// server that the worker itself started is ended then.
func TestServerNotes(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := closed.Addr().(*net.TCPAddr).Port
	closed.Close()
	for name, change := range map[string]func(note string) string{
		"the same":          nil,
		"no note":           func(string) string { return "" },
		"no JSON":           func(string) string { return "{" },
		"a long note":       func(s string) string { return s + strings.Repeat(" ", maxNote) },
		"no port":           func(string) string { return `{"port":0}` },
		"no such port":      func(string) string { return `{"port":70000}` },
		"a closed port":     func(string) string { return fmt.Sprintf(`{"port":%d}`, free) },
		"another password":  func(s string) string { return strings.Replace(s, `"password":"`, `"password":"x`, 1) },
		"a password of two": func(s string) string { return strings.Replace(s, `"password":"`, `"password":"x:`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			y := &yard{}
			w := scene(t, "serve", y, repo.WorkerConfig{})
			one := w.Run(t.Context(), "one")
			at := (&round{worker: w}).noteAt()
			first := y.jobs[0]
			want := 1
			if change != nil {
				y.files[at] = []byte(change(string(y.files[at])))
				want = 2
			}
			two := w.Run(t.Context(), "two")
			if one.Stop != api.StopEnded || two.Stop != api.StopEnded || y.started != want || (one.Text == two.Text) != (want == 1) {
				t.Errorf("%d servers: %+v, %+v", y.started, one, two)
			}
			if want == 2 && first.Wait(t.Context()) != nil {
				t.Error("the first server is left")
			}
		})
	}
}

// TestServerStops: the ways in which a round of a server can end without an end of its turn.
func TestServerStops(t *testing.T) {
	for _, tt := range []struct {
		how    string
		budget api.Budget
		stop   api.StopReason
		says   string
		err    bool
	}{
		{"serve", api.Budget{}, api.StopEnded, "ended its turn", false},
		{"serve-dies", api.Budget{}, api.StopModel, "stopped (exit code 3; it ended before it listened): a reason on stderr", true},
		{"serve-stops", api.Budget{}, api.StopModel, "stopped (exit code 4; ", true},
		{"serve-floods", api.Budget{}, api.StopModel, "did not say its port in the first 65536 bytes", true},
		{"serve-silent", api.Budget{WallMS: 300}, api.StopWall, "300ms", false},
		{"serve-waits", api.Budget{WallMS: 1500}, api.StopWall, "1.5s", false},
	} {
		t.Run(tt.how, func(t *testing.T) {
			rep := scene(t, tt.how, &yard{}, repo.WorkerConfig{Budget: tt.budget}).Run(t.Context(), "go")
			if rep.Stop != tt.stop || !strings.Contains(rep.Why, tt.says) || (rep.Err != nil) != tt.err {
				t.Errorf("%s %q %v, want %s %q", rep.Stop, rep.Why, rep.Err, tt.stop, tt.says)
			}
		})
	}
}

// TestServerCanceled: the end of the task's context ends the turn; the call that ran is one that did not end.
func TestServerCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &facts{}
	y := &yard{}
	w := scene(t, "serve-waits", y, repo.WorkerConfig{Emit: f})
	w.now = func() time.Time {
		if w.steps > 0 {
			cancel() // the call has begun
		}
		return time.Now()
	}
	rep := w.Run(ctx, "go")
	if rep.Stop != api.StopCanceled || rep.Err == nil || len(rep.Completed) > 0 || len(rep.Skipped) != 1 || rep.Skipped[0] != "edit: write" {
		t.Errorf("%+v", rep)
	}
}
