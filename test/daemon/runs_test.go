package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/world"
)

// TestHTTP asks one daemon for everything that is new to those who have no SDK.
func TestHTTP(t *testing.T) {
	t.Parallel()
	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *client.Client, string)
	}{
		{"Run", testRun}, {"RunCut", testRunCut}, {"RunRefused", testRunRefused},
		{"Execute", testExecute}, {"Execs", testExecs}, {"Provision", testProvision},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c, dir) })
	}
}

// unwalled is a request for a run that needs nothing of its host.
const unwalled = `{"request":"Write a Python script that computes the mean and median of a list of numbers","isolation":"process"}`

func testRun(t *testing.T, c *client.Client, dir string) {
	ctx := t.Context()
	resp := world.Over(t, ctx, dir, "POST", "/v1/runs", unwalled, "Accept", "text/event-stream", "Idempotency-Key", "k")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	all := world.Events(t, resp.Body, -1)
	if len(all) == 0 {
		t.Fatal("no events")
	}
	// The standard names, each at least once, in this order; the verdict once and last.
	at := -1
	for _, name := range []string{"created", "started", "plan", "code", "attempt", "output", "result", "verdict"} {
		next := slices.IndexFunc(all, func(e world.Event) bool { return e.Name == name })
		if next <= at {
			t.Errorf("%s is event %d, after %d", name, next, at)
		}
		at = next
	}
	if at != len(all)-1 {
		t.Errorf("the verdict is event %d of %d", at, len(all))
	}
	for i, e := range all {
		if e.ID != strconv.Itoa(i+1) {
			t.Errorf("event %d has the number %q", i+1, e.ID)
		}
	}
	var last api.Event
	var run api.Task
	world.OK(t, json.Unmarshal([]byte(all[at].Data), &last))
	if err := json.Unmarshal(last.Data, &run); err != nil || run.Outcome != api.OutcomeVerified {
		t.Fatalf("%+v, %v", run, err)
	}
	path := "/v1/runs/" + string(run.ID)
	if got := resp.Header.Get("Location"); got != path {
		t.Errorf("Location %q", got)
	}

	for _, bad := range []string{"x", "-1", "1e3", strconv.Itoa(len(all) + 1), "99999999999999999999"} {
		if resp := world.Over(t, ctx, dir, "GET", path+"/events", "", "Last-Event-ID", bad); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("Last-Event-ID %s: %s", bad, resp.Status)
		}
	}

	// Asked again under the same key it is the same run, as a stream and as a record.
	resp = world.Over(t, ctx, dir, "POST", "/v1/runs", unwalled, "Accept", "text/event-stream", "Idempotency-Key", "k")
	if again := world.Events(t, resp.Body, -1); !slices.Equal(again, all) || resp.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("again: %d events, %v", len(again), resp.Header)
	}
	if got := world.Into[api.Task](t, world.Over(t, ctx, dir, "POST", "/v1/runs", unwalled, "Idempotency-Key", "k"), http.StatusAccepted); got.ID != run.ID {
		t.Errorf("again: %s, not %s", got.ID, run.ID)
	}
	runs, err := c.Runs.List(ctx, 0)
	if err != nil || len(runs) != 1 || runs[0].ID != run.ID {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	if out := world.Into[api.Task](t, world.Over(t, ctx, dir, "GET", path, ""), http.StatusOK); out.Outcome != api.OutcomeVerified || len(out.Attempts) != 1 {
		t.Errorf("%+v", out)
	}
	r := world.Must(c.Runs.Output(ctx, run.ID, 1, "stdout"))(t)
	defer r.Close()
	if b, _ := io.ReadAll(r); !strings.Contains(string(b), "median: 13") {
		t.Errorf("stdout %q", b)
	}
}

// testRunCut follows a run while it works and loses the connection after
// each event.
func testRunCut(t *testing.T, c *client.Client, dir string) {
	run := world.Must(c.Runs.Create(t.Context(), api.CreateRun{Request: "Write a Python script that prints the first 10 primes", Isolation: "process"}))(t)
	var all []world.Event
	for {
		header := []string{"Accept", "text/event-stream"}
		if n := len(all); n > 0 {
			header = append(header, "Last-Event-ID", all[n-1].ID)
		}
		ctx, cut := context.WithCancel(t.Context())
		resp := world.Over(t, ctx, dir, "GET", "/v1/runs/"+string(run.ID)+"/events", "", header...)
		if resp.StatusCode == http.StatusNoContent {
			cut()
			break
		}
		got := world.Events(t, resp.Body, 1)
		cut()
		if len(got) != 1 {
			t.Fatalf("after %d events: %s, nothing came", len(all), resp.Status)
		}
		all = append(all, got...)
	}
	whole := world.Events(t, world.Over(t, t.Context(), dir, "GET", "/v1/runs/"+string(run.ID)+"/events", "").Body, -1)
	if !slices.Equal(all, whole) || len(all) == 0 || all[len(all)-1].Name != api.RunVerdict {
		t.Errorf("%d events in pieces, %d at once", len(all), len(whole))
	}
}

func testRunRefused(t *testing.T, _ *client.Client, dir string) {
	ctx := t.Context()
	for body, want := range map[string]string{
		`{}`: "request is empty", `{"request":"x","keep":true}`: "keep", `{"request":"x","attempts":11}`: "attempts", `{"request":" "}`: "empty",
		`{"request":"x","limits":{"memory":1}}`: "memory", `{"request":"x","isolation":"magic"}`: "magic", `{"request":"x","model":"nosuch"}`: "nosuch",
	} {
		resp := world.Over(t, ctx, dir, "POST", "/v1/runs", body, "Accept", "text/event-stream")
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode < 400 || resp.StatusCode > 499 || resp.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s %s; want a problem that says %q", body, resp.Status, b, want)
		}
	}
	for _, path := range []string{"t0000000000000000000", "nosuch", "T0"} {
		for _, rest := range []string{"", "/events", "/attempts/1/stdout"} {
			if resp := world.Over(t, ctx, dir, "GET", "/v1/runs/"+path+rest, ""); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s", path+rest, resp.Status)
			}
		}
	}
}

// TestIdempotencyAcrossRestart asks again after the daemon has been replaced.
func TestIdempotencyAcrossRestart(t *testing.T) {
	t.Parallel()
	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	ctx := client.WithIdempotencyKey(t.Context(), "k")
	req := api.CreateRun{Request: "Write a Python script that prints the first 3 primes", Isolation: "process"}
	first := world.Must(c.Runs.Create(ctx, req))(t)
	world.OK(t, c.Stop(t.Context(), true))
	next := world.Connect(t, dir)
	again, err := next.Runs.Create(ctx, req)
	if err != nil || again.ID != first.ID {
		t.Errorf("%s, not %s; %v", again.ID, first.ID, err)
	}
	// Its events are the same log, which ended with the daemon or before.
	n := 0
	for _, e := range world.All(t, next.Runs.Events(t.Context(), first.ID, 0)) {
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
