package http_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
	"hortus.dev/test/patience"
)

func TestControlCalls(t *testing.T) {
	f := &fakes{}
	c, _ := serve(t, f)
	ctx := t.Context()
	if info, err := c.Info(ctx); err != nil || info.PID != 42 {
		t.Errorf("Info = %+v, %v", info, err)
	}
	if err := c.Ready(ctx); api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("Ready = %v", err)
	}
	s, err := c.Sandboxes.Get(ctx, string(f.id)[:6])
	if err != nil || s.ID() != f.id {
		t.Fatalf("Sandbox by its beginning: %v", err)
	}
	if _, err := c.Sandboxes.Get(ctx, "zzz"); api.KindOf(err) != api.KindNotFound {
		t.Errorf("unknown sandbox: %v", err)
	}
	if _, err := c.Sandboxes.Get(ctx, "../info"); api.KindOf(err) != api.KindInvalid {
		t.Errorf("a path for an id: %v", err)
	}
	if _, err := s.Pause(ctx); api.KindOf(err) != api.KindUnsupported {
		t.Errorf("Pause: %v", err)
	}
	_, err = c.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "magic"})
	if api.KindOf(err) != api.KindUnisolated || api.HintOf(err) != "try container" {
		t.Errorf("Create: %v, hint %q", err, api.HintOf(err))
	}
	task, err := c.Tasks.Get(ctx, string(f.task)[1:5])
	if err != nil || task.ID != f.task {
		t.Errorf("Task by its short form: %v", err)
	}
	r, err := c.Tasks.Output(ctx, f.task, 1, "stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, _ := io.ReadAll(r); string(b) != "out\x00put" {
		t.Errorf("output %q", b)
	}
}

// TestNotRunning: a request to a sandbox that has ended is a 410, which HTTP libraries do not
// repeat, and one to a paused sandbox a 409. Both are problems that say why.
func TestNotRunning(t *testing.T) {
	ended := api.Errorf(api.KindUnavailable, "sandbox i1 is ended (killed)")
	ended.Gone = true
	for _, c := range []struct {
		err    error
		status int
		says   string
	}{
		{ended, http.StatusGone, "killed"},
		{api.Errorf(api.KindConflict, "sandbox i1 is paused"), http.StatusConflict, "paused"},
		{api.Errorf(api.KindUnavailable, "the guest is late"), http.StatusBadGateway, "late"},
	} {
		f := &fakes{gone: c.err}
		hc, path := serve(t, f)
		one := "/v1/sandboxes/" + string(f.id)
		for url, body := range map[string]string{
			one + "/execs":      `{"args":["true"]}`,
			one + "/envd/files": ``,
			one + "/envd/filesystem.Filesystem/ListDir": `{"path":"/"}`,
		} {
			resp, text := send(t, path, "POST", url, body)
			var p api.Problem
			if err := json.Unmarshal([]byte(text), &p); err != nil || resp.StatusCode != c.status || p.Status != c.status || !strings.Contains(p.Detail, c.says) ||
				resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: %d %s", url, resp.StatusCode, text)
			}
		}
		s, err := hc.Sandboxes.Get(t.Context(), string(f.id))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, _, err := s.ReadFile(t.Context(), "", "/x"); err == nil || !strings.Contains(err.Error(), c.says) || c.status == http.StatusGone && api.KindOf(err) != api.KindUnavailable {
			t.Errorf("ReadFile: %v", err)
		}
	}
}

// post sends a body to the server as it is.
func post(t *testing.T, path, url, body string) (int, string) {
	t.Helper()
	hc := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer hc.CloseIdleConnections()
	resp, err := hc.Post("http://server"+url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestStrictJSON(t *testing.T) {
	_, path := serve(t, &fakes{})
	for body, want := range map[string]string{
		`{"isolatoin":"x"}`: "isolatoin",
		`{"ttlMs":"soon"}`:  "ttlMs",
		`{} {}`:             "more than one",
		``:                  "empty",
		`{`:                 "malformed",
		`{"template":"` + strings.Repeat("x", 5<<20): "more than",
	} {
		code, got := post(t, path, "/v1/sandboxes", body)
		if code != http.StatusBadRequest || !strings.Contains(got, want) {
			t.Errorf("%.40s: %d %.200s; want 400 that says %q", body, code, got, want)
		}
	}
	if code, got := post(t, path, "/v1/nothing", "{}"); code != http.StatusNotFound || !strings.Contains(got, `"kind":"not_found"`) {
		t.Errorf("unknown path: %d %s", code, got)
	}
}

func TestExec(t *testing.T) {
	f := &fakes{script: []*envd.ProcessEvent{
		{Start: &envd.StartEvent{PID: 7}},
		{Data: &envd.DataEvent{Stdout: []byte("out\x00")}},
		{Data: &envd.DataEvent{Stderr: []byte("err"), Offset: 4}},
		{End: &envd.EndEvent{ExitCode: 137, Status: "signal: killed", Cause: api.CauseTimeout}},
	}}
	c, _ := serve(t, f)
	s, err := c.Sandboxes.Get(t.Context(), string(f.id))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out, errOut bytes.Buffer
	cmd := s.Command(t.Context(), "prog", "a b", "")
	cmd.User, cmd.Dir, cmd.Timeout, cmd.Env = "root", "/x", 1500*time.Millisecond, map[string]string{"K": "V"}
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	var exit *client.ExitError
	if !errors.As(err, &exit) || exit.Code != 137 || exit.Cause != api.CauseTimeout {
		t.Errorf("Run: %#v", err)
	}
	if out.String() != "out\x00" || errOut.String() != "err" {
		t.Errorf("output %q, %q", out.String(), errOut.String())
	}
	if err := s.Command(t.Context(), "nosuch").Run(); api.KindOf(err) != api.KindNotFound {
		t.Errorf("a command that is not there: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.started[0]
	if fmt.Sprint(got.Args) != "[prog a b ]" || len(got.Args) != 3 || got.User != "root" || got.Dir != "/x" || got.TimeoutMS != 1500 || got.Env["K"] != "V" || got.Stdin {
		t.Errorf("the request came as %+v", got)
	}
}

func TestEventsReconnect(t *testing.T) {
	const total = 7
	var asked []int64
	f := &fakes{}
	// The log breaks off after two events each time.
	f.follow = func(after int64) iter.Seq2[api.Event, error] {
		f.mu.Lock()
		asked = append(asked, after)
		f.mu.Unlock()
		return func(yield func(api.Event, error) bool) {
			for n := after + 1; n <= min(after+2, total); n++ {
				e := api.Event{Seq: n, Type: api.EventTaskStarted}
				if n == total {
					e.Type = api.EventTaskFinished
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	c, _ := serve(t, f)
	var seen []int64
	for e, err := range c.Tasks.Events(t.Context(), f.task, 0) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, e.Seq)
	}
	if fmt.Sprint(seen) != "[1 2 3 4 5 6 7]" {
		t.Errorf("seen %v", seen)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fmt.Sprint(asked) != "[0 2 4 6]" {
		t.Errorf("asked after %v", asked)
	}
}

func TestHoldKillsWhenTheClientIsGone(t *testing.T) {
	f := &fakes{}
	c, _ := serve(t, f)
	s, err := c.Sandboxes.Get(t.Context(), string(f.id))
	if err != nil {
		t.Fatal(err)
	}
	release, err := s.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-f.killed:
		t.Fatal("killed while held")
	default:
	}
	release()
	select {
	case <-f.killed:
	case <-time.After(patience.Of(60 * time.Second)):
		t.Fatal("not killed after the connection ended")
	}
}

// TestOneNamePerEvent: the name of an event and the type in its data are the same, and a client of the SDK
// gets the types of tasks.
func TestOneNamePerEvent(t *testing.T) {
	f := &fakes{follow: func(after int64) iter.Seq2[api.Event, error] {
		return func(yield func(api.Event, error) bool) {
			for i, kind := range []api.EventType{api.EventTaskStarted, api.EventPlan, api.EventTaskFinished}[after:] {
				if !yield(api.Event{Seq: after + int64(i) + 1, Type: kind}, nil) {
					return
				}
			}
		}
	}}
	c, path := serve(t, f)
	for kind, want := range map[string]string{"runs": "started plan verdict", "tasks": "task.started task.plan task.finished"} {
		_, text := send(t, path, "GET", "/v1/"+kind+"/"+string(f.task)+"/events", "")
		var names []string
		for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
			_, rest, _ := strings.Cut(block, "event: ")
			name, data, _ := strings.Cut(rest, "\ndata: ")
			var e api.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil || string(e.Type) != name {
				t.Errorf("%s: event %q has the type %q", kind, name, e.Type)
			}
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
	var types []api.EventType
	for e, err := range c.Runs.Events(t.Context(), f.task, 0) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
	}
	if fmt.Sprint(types) != "[task.started task.plan task.finished]" {
		t.Errorf("the SDK gives %v", types)
	}
}
