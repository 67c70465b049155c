package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/world"
)

// output puts the events of a command's output together, and checks their offsets.
func output(t *testing.T, all []world.Event) (stdout, stderr string, exit api.Exec, gaps int) {
	t.Helper()
	next := int64(-1)
	for i, e := range all {
		switch e.Name {
		case "output":
			var o api.ExecOutput
			world.OK(t, json.Unmarshal([]byte(e.Data), &o))
			if next >= 0 && o.Offset != next {
				t.Errorf("output at %d, want %d", o.Offset, next)
			}
			next = o.Offset + int64(len(o.Data))
			if o.Stream == "stderr" {
				stderr += string(o.Data)
			} else {
				stdout += string(o.Data)
			}
		case "gap":
			gaps++
		case "exit":
			if err := json.Unmarshal([]byte(e.Data), &exit); err != nil || i != len(all)-1 {
				t.Errorf("the exit is event %d of %d, %v", i+1, len(all), err)
			}
		default:
			t.Errorf("an event %q", e.Name)
		}
	}
	return stdout, stderr, exit, gaps
}

func testExecs(t *testing.T, c *client.Client, dir string) {
	s := world.Sandbox(t, c, api.CreateSandbox{Isolation: "process"})
	ctx := t.Context()
	base := "/v1/sandboxes/" + string(s.ID()) + "/execs"
	post := func(body string) *http.Response { return world.Over(t, ctx, dir, "POST", base, body) }

	// It lives without a reader: it waits for input, writes, and is read from any byte.
	resp := post(`{"args":["sh","-c","echo begun; cat; echo done >&2; exit 4"],"stdin":true}`)
	x := world.Into[api.Exec](t, resp, http.StatusCreated)
	if x.State != api.ExecRunning || resp.Header.Get("Location") != base+"/"+string(x.ID) {
		t.Errorf("%+v, at %q", x, resp.Header.Get("Location"))
	}
	one := base + "/" + string(x.ID)
	for _, in := range []struct{ body, query string }{{"first\n", ""}, {"last\x00\xff\n", "?close=true"}} {
		if resp := world.Over(t, ctx, dir, "POST", one+"/stdin"+in.query, in.body); resp.StatusCode != http.StatusNoContent {
			t.Errorf("stdin %q: %s", in.body, resp.Status)
		}
	}
	const want = "begun\nfirst\nlast\x00\xff\n"
	all := world.Events(t, world.Over(t, ctx, dir, "GET", one+"/output", "").Body, -1)
	stdout, stderr, exit, gaps := output(t, all)
	if stdout != want || stderr != "done\n" || exit.Exit.Code != 4 || exit.State != api.ExecExited || gaps != 0 {
		t.Errorf("%q %q %+v, %d gaps", stdout, stderr, exit, gaps)
	}
	// Cut after each event, it continues where it was; after the exit there is nothing.
	for i, e := range all {
		resp := world.Over(t, ctx, dir, "GET", one+"/output", "", "Last-Event-ID", e.ID)
		if i == len(all)-1 {
			if resp.StatusCode != http.StatusNoContent {
				t.Errorf("after the exit: %s", resp.Status)
			}
			continue
		}
		before, _, _, _ := output(t, all[:i+1])
		after, _, exit, _ := output(t, world.Events(t, resp.Body, -1))
		if before+after != want || exit.ID != x.ID {
			t.Errorf("cut after %s: %q and %q", e.ID, before, after)
		}
	}
	for offset := range len(want) {
		rest := world.Events(t, world.Over(t, ctx, dir, "GET", one+"/output?offset="+strconv.Itoa(offset), "").Body, -1)
		if got, _, _, _ := output(t, rest); got != want[offset:] {
			t.Errorf("from %d: %q", offset, got)
		}
	}
	for _, bad := range []string{"-1", "x", "1.5", "99999999999999999999"} {
		if resp := world.Over(t, ctx, dir, "GET", one+"/output?offset="+bad, ""); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("offset %s: %s", bad, resp.Status)
		}
	}
	if got := world.Into[api.Exec](t, world.Over(t, ctx, dir, "GET", one, ""), http.StatusOK); got.Exit.Code != 4 || got.OutputBytes != int64(len(want)+5) {
		t.Errorf("%+v", got)
	}
	for _, call := range []struct{ what, body string }{{"/stdin", "x"}, {"/signal", `{"signal":15}`}} {
		if resp := world.Over(t, ctx, dir, "POST", one+call.what, call.body); resp.StatusCode != http.StatusConflict {
			t.Errorf("%s after the end: %s", call.what, resp.Status)
		}
	}
	if k, err := s.KillExec(ctx, x.ID); err != nil || k.Exec.Exit.Code != 4 || !strings.Contains(k.How, "already") {
		t.Errorf("killed after the end: %+v, %v", k, err)
	}

	// Signals, and a kill of what does not listen to them.
	x = world.Must(s.CreateExec(ctx, api.ExecRequest{Args: []string{"sh", "-c", `trap 'echo usr1' USR1; trap '' TERM; echo ready; while :; do sleep 0.05; done`}}))(t)
	live := world.Over(t, ctx, dir, "GET", base+"/"+string(x.ID)+"/output", "")
	first := world.Events(t, live.Body, 1)
	if stdout, _, _, _ := output(t, first); stdout != "ready\n" {
		t.Errorf("%q", stdout)
	}
	for _, signal := range []int{15, 10} {
		if err := s.SignalExec(ctx, x.ID, signal); err != nil {
			t.Errorf("signal %d: %v", signal, err)
		}
	}
	if second := world.Events(t, live.Body, 1); len(second) != 1 || second[0].Name != "output" {
		t.Errorf("after the signals: %+v", second)
	}
	for _, signal := range []int{0, 32, -1} {
		if err := s.SignalExec(ctx, x.ID, signal); api.KindOf(err) != api.KindInvalid {
			t.Errorf("signal %d: %v", signal, err)
		}
	}
	k, err := s.KillExec(ctx, x.ID)
	if err != nil || k.Exec.State != api.ExecExited || k.Exec.Exit.Signal != "SIGKILL" || k.Exec.Exit.Code != 137 {
		t.Errorf("%+v, %v", k, err)
	}
	// The shell may have had more to say of the signals before it.
	if _, _, exit, _ := output(t, world.Events(t, live.Body, -1)); exit.Exit.Signal != "SIGKILL" {
		t.Errorf("after the kill: %+v", exit)
	}
	all2, err := s.Execs(ctx)
	if err != nil || len(all2) != 2 || all2[0].ID != x.ID {
		t.Errorf("%d commands, %v", len(all2), err)
	}

	// What is not there, and what is another sandbox's.
	other := world.Sandbox(t, c, api.CreateSandbox{Isolation: "process"})
	for _, path := range []string{base + "/" + string(api.NewExecID()), "/v1/sandboxes/" + string(other.ID()) + "/execs/" + string(x.ID), base + "/..%2fx"} {
		for method, rest := range map[string]string{"GET": "", "POST": "/kill"} {
			if resp := world.Over(t, ctx, dir, method, path+rest, ""); resp.StatusCode != http.StatusNotFound {
				b, _ := io.ReadAll(resp.Body)
				t.Errorf("%s %s: %s %s", method, path+rest, resp.Status, b)
			}
		}
	}
	// After the sandbox's end the record still tells it, and what is gone.
	world.Must(s.Kill(ctx))(t)
	_, _, exit, gaps = output(t, world.Events(t, world.Over(t, ctx, dir, "GET", one+"/output", "").Body, -1))
	if exit.Exit.Code != 4 || gaps != 1 {
		t.Errorf("after the sandbox's end: %+v, %d gaps", exit, gaps)
	}
	if resp := post(`{"args":["true"]}`); resp.StatusCode != http.StatusGone {
		t.Errorf("in a sandbox that has ended: %s", resp.Status)
	}
}
