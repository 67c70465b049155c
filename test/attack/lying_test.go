package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/test/attack/liar"
	"hortus.dev/test/tier"
)

// lies are told by a guest after an honest birth. believed says that the record
// may hold the exit that the guest reports: a plausible one cannot be told from
// the truth.
var lies = []struct {
	name     string
	believed bool
}{
	{"accept and close", false}, {"answer before the request", false}, {"garbage", false}, {"silence", false},
	{"half a head", false}, {"endless headers", false}, {"endless header line", false}, {"endless 100", false}, {"endless 103", false},
	{"switching protocols", false}, {"redirect", false}, {"endless error", false}, {"silent error", false}, {"another content type", false},
	{"too long", false}, {"too short", false}, {"negative length", false},
	{"frame of 4 GiB", false}, {"frame of 4 GiB after the start", false}, {"half a frame", false}, {"half a frame and silence", false},
	{"compressed frame", false}, {"malformed message", false}, {"head and silence", false},
	{"end without start", false}, {"end mark alone", false}, {"data without start", false},
	{"start and cut", false}, {"start and end mark", false}, {"start and silence", false}, {"start and error", false},
	{"error of megabytes", false}, {"malformed end mark", false}, {"endless output", false},
	{"ten million empty frames", false}, {"ten million starts", false}, {"huge list", false},
	{"exit code 256", false}, {"exit code -1", false}, {"exit code 2147483647", false}, {"exit code -2147483648", false},
	{"invented cause", true}, {"wrong pid", true}, {"offsets go back", true},
	{"end and silence", true}, {"end and more output", true}, {"end mark and silence", true}, {"end mark and endless rest", true}, {"trailers", true},
	{"exit after go", false}, {"exit at accept", false}, {"exit at request", false},
}

// ends fails the test when a call does not end at all.
func ends(t *testing.T, what string, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s does not end", what)
	}
}

// memory is what this process has had in its memory at most since the last
// call of forget, in bytes, and what it has now.
func memory(t *testing.T) (peak, now int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmHWM:":
			peak = n << 10
		case "VmRSS:":
			now = n << 10
		}
	}
	if peak == 0 || now == 0 {
		t.Fatal("the kernel does not tell this process's memory")
	}
	return peak, now
}

// bounded fails the test when this process grows by more than most bytes while
// it runs.
func bounded(t *testing.T, most int64) {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatalf("forget the peak: %v", err)
	}
	_, before := memory(t)
	t.Cleanup(func() {
		peak, _ := memory(t)
		t.Logf("this process grew by %d MiB at most, from %d MiB", (peak-before)>>20, before>>20)
		if peak-before > most {
			t.Errorf("this process grew by %d bytes; at most %d are allowed", peak-before, most)
		}
	})
}

func TestLyingGuest(t *testing.T) {
	tier.AnyUser(t)
	w := newWorld(t)
	honest := w.create(t, nil)
	w.alive(t, honest.ID)
	bounded(t, 128<<20)
	t.Run("lies", func(t *testing.T) {
		for _, lie := range lies {
			t.Run(lie.name, func(t *testing.T) {
				t.Parallel()
				w.lie(t, lie.name, lie.believed)
			})
		}
	})
	w.alive(t, honest.ID)
}

// lie starts a sandbox whose guest tells one lie, and speaks to it in every way.
func (w *world) lie(t *testing.T, name string, believed bool) {
	sandbox := w.create(t, func(r *api.CreateSandbox) {
		r.Env = map[string]string{liar.Variable: name}
		r.Limits = api.Limits{OutputBytes: 1 << 20}
	})
	ends(t, "a command", func() { w.commandOfLiar(t, sandbox.ID, believed) })
	ends(t, "every other call", func() { w.callsOfLiar(t, sandbox.ID, name) })
	ends(t, "the server", func() { w.serverOfLiar(t, sandbox.ID, name) })
	ends(t, "the kill", func() { w.kill(t, sandbox.ID) })
	rows, err := w.Guests.Execs(t.Context(), sandbox.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range rows {
		if x.State == api.ExecRunning || x.EndedAt.IsZero() {
			t.Errorf("a command of a killed sandbox is recorded as %+v", x)
		}
		if !believed && (x.State != api.ExecUnknown || x.Exit.Code != -1) {
			t.Errorf("an end that nobody saw is recorded as %s, %+v", x.State, x.Exit)
		}
		if len(x.Exit.Cause) > 8<<10 {
			t.Errorf("the record holds %d bytes of the guest's words", len(x.Exit.Cause))
		}
		if strings.Contains(x.Exit.Cause, "\x1b") {
			t.Errorf("the record holds control characters of the guest's: %.60q", x.Exit.Cause)
		}
	}
	if len(rows) == 0 {
		switch name {
		case "exit after go": // it may be gone before the first command
		default:
			t.Error("no command was recorded")
		}
	}
}

// honestErrors are the kinds of error that a lie may end in.
var honestErrors = map[api.Kind]bool{
	api.KindUnavailable: true, api.KindTimeout: true, api.KindExhausted: true, api.KindInternal: true,
	api.KindConflict: true, api.KindCanceled: true,
}

func (w *world) commandOfLiar(t *testing.T, id api.SandboxID, believed bool) {
	// The start has its bound in the context, the command in its timeout.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	s, err := w.Guests.StartExec(ctx, id, api.ExecRequest{Args: []string{"true"}, TimeoutMS: 100})
	for err == nil {
		_, err = s.Next()
	}
	if s != nil {
		s.Close()
	}
	switch {
	case errors.Is(err, io.EOF) && believed && s != nil:
		if x := s.Exec(); x.State != api.ExecExited || x.Exit.Code < 0 || x.Exit.Code > 255 {
			t.Errorf("the end was believed as %+v", x)
		}
	case errors.Is(err, io.EOF):
		t.Errorf("the lie was believed: %v, started %v", err, s != nil)
	case !honestErrors[api.KindOf(err)]:
		t.Errorf("%v is of kind %s", err, api.KindOf(err))
	}
	if err != nil && len(err.Error()) > 8<<10 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func (w *world) callsOfLiar(t *testing.T, id api.SandboxID, name string) {
	c, err := w.Guests.Client(t.Context(), id)
	if err != nil {
		return // it has ended, and that is known
	}
	w.eachCall(t, c, func(call string, err error) {
		if err == nil {
			switch name {
			case "answer before the request", "too long", "huge list", "trailers", "endless 103", "end mark and silence":
			default:
				t.Errorf("%s of a liar gave no error", call)
			}
			return
		}
		if len(err.Error()) > 8<<10 {
			t.Errorf("%s: an error of %d bytes", call, len(err.Error()))
		}
	})
	if _, err := w.Sandboxes.Stats(t.Context(), id); err != nil && api.KindOf(err) != api.KindUnavailable {
		t.Errorf("stats: %v", err)
	}
}

// eachCall makes every kind of call, each with a deadline of its own.
func (w *world) eachCall(t *testing.T, c *envd.Client, got func(call string, err error)) {
	pid := uint32(7)
	sel := envd.Selector{PID: &pid}
	for _, call := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"list", func(ctx context.Context) error { _, err := c.List(ctx); return err }},
		{"stat", func(ctx context.Context) error { _, err := c.Stat(ctx, "", "/x"); return err }},
		{"health", func(ctx context.Context) error { return c.Health(ctx) }},
		{"signal", func(ctx context.Context) error { return c.SendSignal(ctx, sel, 9) }},
		{"write file", func(ctx context.Context) error {
			return c.WriteFile(ctx, "", "/x", io.LimitReader(zeros{}, 4<<20))
		}},
		{"read file", func(ctx context.Context) error {
			r, _, err := c.ReadFile(ctx, "", "/x")
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, io.LimitReader(r, 16<<20))
			return err
		}},
		{"watch", func(ctx context.Context) error {
			s, err := c.WatchDir(ctx, "", envd.WatchRequest{Path: "/"})
			if err == nil {
				_, err = s.Next()
				s.Close()
			}
			return err
		}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := call.do(ctx)
		cancel()
		if call.name == "health" || call.name == "read file" || call.name == "signal" || call.name == "write file" {
			// An empty or an endless answer is a right one to these.
			if err == nil {
				continue
			}
		}
		got(call.name, err)
	}
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// serverOfLiar speaks to the guest as a client of the daemon does.
func (w *world) serverOfLiar(t *testing.T, id api.SandboxID, name string) {
	c := envd.NewClient(envd.ClientConfig{Dial: w.dialServer, Prefix: "/v1/sandboxes/" + string(id) + "/envd"})
	defer c.Close()
	w.eachCall(t, c, func(string, error) {})
	// Raw: nothing of the guest's own may come in the daemon's name.
	conn, err := w.dialServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(conn, "GET /v1/sandboxes/%s/envd/files?path=/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", id)
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<20))
	var ne net.Error
	if err != nil && !(errors.As(err, &ne) && ne.Timeout()) {
		t.Errorf("the server: %v", err)
	}
	for _, bad := range []string{"Set-Cookie", "X-Lie", "Location:", "HTTP/1.1 10", "HTTP/1.1 3"} {
		if strings.Contains(string(answer), bad) {
			t.Errorf("the guest says %q in the daemon's name: %.300q", bad, answer)
		}
	}
	if len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
		t.Errorf("the server answers %.100q", answer)
	}
}

// TestLiesAtBirth is of guests that never come to life as agreed.
func TestLiesAtBirth(t *testing.T) {
	tier.AnyUser(t)
	w := newWorld(t)
	honest := w.create(t, nil)
	bounded(t, 64<<20)
	for _, lie := range []string{
		"birth exits before its configuration", "birth exits after its configuration", "birth garbage", "birth empty packet",
		"birth huge", "birth not ready", "birth descriptors", "birth silence",
	} {
		t.Run(lie, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var s api.Sandbox
			var err error
			ends(t, "the start", func() {
				s, err = w.Creator.Create(ctx, api.CreateSandbox{Isolation: "container", Env: map[string]string{liar.Variable: lie}})
			})
			if err == nil {
				t.Fatalf("the sandbox started: %+v", s)
			}
			if k := api.KindOf(err); k != api.KindInternal && k != api.KindTimeout && k != api.KindUnisolated {
				t.Errorf("%v is of kind %s", err, k)
			}
			if lie == "birth silence" && api.KindOf(err) != api.KindTimeout {
				t.Errorf("silence ends in %v", err)
			}
			if len(err.Error()) > 2<<10 || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("the error is of %d bytes: %.200q", len(err.Error()), err)
			}
		})
	}
	all, err := w.Sandboxes.List(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.ID == honest.ID {
			continue
		}
		if s.State != api.SandboxEnded || !strings.HasPrefix(s.Reason, "start failed") {
			t.Errorf("recorded as %s: %q", s.State, s.Reason)
		}
		if left := w.leftovers(s.ID); len(left) > 0 {
			t.Errorf("left of %s: %q", s.ID, left)
		}
	}
	for _, lie := range []string{"birth flood", "birth exits after its report", "exit after go"} {
		// These may well start; then they are lost, or do nothing.
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		s, err := w.Creator.Create(ctx, api.CreateSandbox{Isolation: "container", Env: map[string]string{liar.Variable: lie}})
		cancel()
		if err != nil {
			continue
		}
		if lie == "exit after go" {
			eventually(t, "a guest that is gone is lost", func() bool {
				row, err := w.Sandboxes.Get(t.Context(), s.ID)
				return err == nil && row.State == api.SandboxLost && strings.HasPrefix(row.Reason, "guest exited")
			})
		}
		w.kill(t, s.ID)
	}
	w.alive(t, honest.ID)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}
