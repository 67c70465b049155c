package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
)

// TestHTTP asks one daemon for everything that is new to those who have no SDK.
func TestHTTP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := connect(t, dir)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *client.Client, string)
	}{
		{"Run", testRun}, {"RunCut", testRunCut}, {"RunRefused", testRunRefused}, {"RunCanceled", testRunCanceled},
		{"Execute", testExecute}, {"Execs", testExecs}, {"Provision", testProvision},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c, dir) })
	}
}

// sse is one server-sent event.
type sse struct{ id, name, data string }

// over sends a request to the daemon of a directory, as any program would.
func over(t *testing.T, ctx context.Context, dir, method, path, body string, header ...string) *http.Response {
	t.Helper()
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "hortus.sock"))
	}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://hortus"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// into decodes a whole answer that must have that status.
func into[T any](t *testing.T, resp *http.Response, status int) (v T) {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("%s, want %d: %s %v", resp.Status, status, b, err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}

// events reads at most n server-sent events, all of them if n is below 0.
func events(t *testing.T, r io.Reader, n int) (all []sse) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 8<<20)
	var e sse
	for n != 0 && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if lines.Text() == "" && e != (sse{}) {
				all, e = append(all, e), sse{}
				n--
			}
		}
	}
	return all
}

// unwalled is a request for a run that needs nothing of its host.
const unwalled = `{"request":"Write a Python script that computes the mean and median of a list of numbers","isolation":"process"}`

func testRun(t *testing.T, c *client.Client, dir string) {
	ctx := t.Context()
	resp := over(t, ctx, dir, "POST", "/v1/runs", unwalled, "Accept", "text/event-stream", "Idempotency-Key", "k")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	all := events(t, resp.Body, -1)
	if len(all) == 0 {
		t.Fatal("no events")
	}
	// The standard names, each at least once, in this order; the verdict once and last.
	at := -1
	for _, name := range []string{"created", "started", "plan", "code", "attempt", "output", "result", "verdict"} {
		next := slices.IndexFunc(all, func(e sse) bool { return e.name == name })
		if next <= at {
			t.Errorf("%s is event %d, after %d", name, next, at)
		}
		at = next
	}
	if at != len(all)-1 {
		t.Errorf("the verdict is event %d of %d", at, len(all))
	}
	for i, e := range all {
		if e.id != strconv.Itoa(i+1) {
			t.Errorf("event %d has the number %q", i+1, e.id)
		}
	}
	var last api.Event
	var run api.Task
	if err := json.Unmarshal([]byte(all[at].data), &last); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(last.Data, &run); err != nil || run.Outcome != api.OutcomeVerified {
		t.Fatalf("%+v, %v", run, err)
	}
	path := "/v1/runs/" + string(run.ID)
	if got := resp.Header.Get("Location"); got != path {
		t.Errorf("Location %q", got)
	}

	// Resumed after every event it is the rest, without loss or repeat.
	for i := range all {
		resp := over(t, ctx, dir, "GET", path+"/events", "", "Last-Event-ID", all[i].id)
		if i == len(all)-1 {
			if resp.StatusCode != http.StatusNoContent {
				t.Errorf("after the verdict: %s", resp.Status)
			}
			continue
		}
		if rest := events(t, resp.Body, -1); !slices.Equal(rest, all[i+1:]) {
			t.Errorf("after %s: %d events, want %d", all[i].id, len(rest), len(all)-i-1)
		}
	}
	for _, bad := range []string{"x", "-1", "1e3", strconv.Itoa(len(all) + 1), "99999999999999999999"} {
		if resp := over(t, ctx, dir, "GET", path+"/events", "", "Last-Event-ID", bad); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("Last-Event-ID %s: %s", bad, resp.Status)
		}
	}

	// Asked again under the same key it is the same run, as a stream and as a record.
	resp = over(t, ctx, dir, "POST", "/v1/runs", unwalled, "Accept", "text/event-stream", "Idempotency-Key", "k")
	if again := events(t, resp.Body, -1); !slices.Equal(again, all) || resp.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("again: %d events, %v", len(again), resp.Header)
	}
	if got := into[api.Task](t, over(t, ctx, dir, "POST", "/v1/runs", unwalled, "Idempotency-Key", "k"), http.StatusAccepted); got.ID != run.ID {
		t.Errorf("again: %s, not %s", got.ID, run.ID)
	}
	runs, err := c.Runs.List(ctx, 0)
	if err != nil || len(runs) != 1 || runs[0].ID != run.ID {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	if out := into[api.Task](t, over(t, ctx, dir, "GET", path, ""), http.StatusOK); out.Outcome != api.OutcomeVerified || len(out.Attempts) != 1 {
		t.Errorf("%+v", out)
	}
	r, err := c.Runs.Output(ctx, run.ID, 1, "stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, _ := io.ReadAll(r); !strings.Contains(string(b), "median: 13") {
		t.Errorf("stdout %q", b)
	}
}

// testRunCut follows a run while it works and loses the connection after
// each event.
func testRunCut(t *testing.T, c *client.Client, dir string) {
	run, err := c.Runs.Create(t.Context(), api.CreateRun{Request: "Write a Python script that prints the first 10 primes", Isolation: "process"})
	if err != nil {
		t.Fatal(err)
	}
	var all []sse
	for {
		header := []string{"Accept", "text/event-stream"}
		if n := len(all); n > 0 {
			header = append(header, "Last-Event-ID", all[n-1].id)
		}
		ctx, cut := context.WithCancel(t.Context())
		resp := over(t, ctx, dir, "GET", "/v1/runs/"+string(run.ID)+"/events", "", header...)
		if resp.StatusCode == http.StatusNoContent {
			cut()
			break
		}
		got := events(t, resp.Body, 1)
		cut()
		if len(got) != 1 {
			t.Fatalf("after %d events: %s, nothing came", len(all), resp.Status)
		}
		all = append(all, got...)
	}
	whole := events(t, over(t, t.Context(), dir, "GET", "/v1/runs/"+string(run.ID)+"/events", "").Body, -1)
	if !slices.Equal(all, whole) || len(all) == 0 || all[len(all)-1].name != api.RunVerdict {
		t.Errorf("%d events in pieces, %d at once", len(all), len(whole))
	}
}

func testRunRefused(t *testing.T, _ *client.Client, dir string) {
	ctx := t.Context()
	for body, want := range map[string]string{
		`{}`: "request is empty", `{"request":"x","keep":true}`: "keep", `{"request":"x","attempts":11}`: "attempts", `{"request":" "}`: "empty",
		`{"request":"x","limits":{"memory":1}}`: "memory", `{"request":"x","isolation":"magic"}`: "magic", `{"request":"x","model":"nosuch"}`: "nosuch",
	} {
		resp := over(t, ctx, dir, "POST", "/v1/runs", body, "Accept", "text/event-stream")
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode < 400 || resp.StatusCode > 499 || resp.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s %s; want a problem that says %q", body, resp.Status, b, want)
		}
	}
	for _, path := range []string{"t0000000000000000000", "nosuch", "T0"} {
		for _, rest := range []string{"", "/events", "/attempts/1/stdout"} {
			if resp := over(t, ctx, dir, "GET", "/v1/runs/"+path+rest, ""); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s", path+rest, resp.Status)
			}
		}
	}
}

func testRunCanceled(t *testing.T, c *client.Client, _ string) {
	run, err := c.Runs.Create(t.Context(), api.CreateRun{Request: unwalledLoop, Isolation: "process", Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	done, err := c.Runs.Cancel(t.Context(), run.ID)
	if err != nil || done.State != api.TaskDone || done.Receipt == nil && done.Outcome == api.OutcomeCanceled {
		t.Errorf("%+v, %v", done, err)
	}
	n := 0
	for e, err := range c.Runs.Events(t.Context(), run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == api.EventTaskFinished {
			n++
		}
	}
	if n != 1 {
		t.Error(fmt.Sprint(n, " verdicts"))
	}
	// Canceled again it stays as it is.
	if again, err := c.Runs.Cancel(t.Context(), run.ID); err != nil || again.Outcome != done.Outcome {
		t.Errorf("%+v, %v", again, err)
	}
}

const unwalledLoop = "Write a Python script that counts to a billion"

// TestIdempotencyAcrossRestart asks again after the daemon has been replaced.
func TestIdempotencyAcrossRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := connect(t, dir)
	ctx := client.WithIdempotencyKey(t.Context(), "k")
	req := api.CreateRun{Request: "Write a Python script that prints the first 3 primes", Isolation: "process"}
	first, err := c.Runs.Create(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	next := connect(t, dir)
	again, err := next.Runs.Create(ctx, req)
	if err != nil || again.ID != first.ID {
		t.Errorf("%s, not %s; %v", again.ID, first.ID, err)
	}
	// Its events are the same log, which ended with the daemon or before.
	n := 0
	for e, err := range next.Runs.Events(t.Context(), first.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; e.Seq != int64(n) {
			t.Errorf("event %d has the number %d", n, e.Seq)
		}
	}
	req.Attempts = 2
	if _, err := next.Runs.Create(ctx, req); api.KindOf(err) != api.KindInvalid {
		t.Errorf("another request: %v", err)
	}
	if runs, err := next.Runs.List(t.Context(), 0); err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}
