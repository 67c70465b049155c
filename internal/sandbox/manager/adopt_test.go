package manager_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// TestAdoptCommands: a daemon is killed under commands that run; the next one has
// them, with all that they wrote and how they really ended, and what they were given
// has come once.
func TestAdoptCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := killDaemon(t, dir, "commands")
	id := api.SandboxID(made["box"])
	eventually(t, "one ends while no daemon is there", func() bool { return !alive(t, "sleep "+awayMark) })
	d := openDaemon(t, dir, nil)
	before := must(d.db.Sandbox(t.Context(), id))(t)
	if did := d.recover(t); did.Adopted != 1 || did.Lost != 0 {
		t.Fatalf("recovered %+v", did)
	}
	s := must(d.Sandboxes.Get(t.Context(), id))(t)
	if s.State != api.SandboxRunning || s.Owner != d.owner || s.Labels["a"] != "b" || s.Env["GIVEN"] != "yes" || s.Build != "tested" {
		t.Errorf("adopted %+v", s)
	}
	if moved := s.ExpiresAt.Sub(before.ExpiresAt).Abs(); moved > time.Second {
		t.Errorf("the deadline moved by %s", moved)
	}
	if n := d.Alive(); n != 1 {
		t.Errorf("%d sandboxes live", n)
	}
	for _, c := range []struct {
		name string
		code int
		out  string
	}{{"counting", 7, counted()}, {"away", 5, "late\n"}, {"killed", 137, ""}} {
		x := api.ExecID(made[c.name])
		if out, end := d.output(t, id, x, 0); out != c.out || int(end.ExitCode) != c.code {
			t.Errorf("%s: exit %d, %d bytes of output; want %d, %d", c.name, end.ExitCode, len(out), c.code, len(c.out))
		}
		if row := d.final(t, x); row.State != api.ExecExited || row.Exit.Code != c.code || row.Exit.Cause != "" || row.OutputBytes != int64(len(c.out)) {
			t.Errorf("%s: record %+v", c.name, row)
		}
	}
	var want strings.Builder
	for i := range 400_000 {
		fmt.Fprintln(&want, i+1)
	}
	// It waits for a client that reads on, who comes late.
	if s, err := d.Guests.AttachExec(t.Context(), id, api.ExecID(made["flooding"]), 0); err != nil {
		t.Error(err)
	} else {
		for err == nil {
			_, err = s.Next()
		}
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	if row := d.final(t, api.ExecID(made["flooding"])); row.Exit.Code != 9 || row.OutputBytes != int64(want.Len()) {
		t.Errorf("flooding: record %+v; want %d bytes", row, want.Len())
	}
	var pid uint32
	cat, text, _ := strings.Cut(made["cat"], " ")
	if _, err := fmt.Sscan(text, &pid); err != nil {
		t.Fatal(err)
	}
	c := must(d.Guests.Client(t.Context(), id))(t)
	if err := c.SendInput(t.Context(), envd.Selector{PID: &pid}, envd.ProcessInput{Stdin: []byte("afterwards\n")}); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseStdin(t.Context(), envd.Selector{PID: &pid}); err != nil {
		t.Fatal(err)
	}
	if out, end := d.output(t, id, api.ExecID(cat), 0); out != "acknowledged\nafterwards\n" || end.ExitCode != 4 {
		t.Errorf("what was given came as %q, exit %d", out, end.ExitCode)
	}
	evs := must(d.log.Read(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(id)}, 0, 100))(t)
	if last := evs[len(evs)-1]; last.Type != api.EventAdopted || !strings.Contains(string(last.Data), string(before.Owner)) || !strings.Contains(string(last.Data), `"cause":"`) {
		t.Errorf("the last event is %s %s", last.Type, last.Data)
	}
	// It continues as any other.
	if out := d.sh(t, id, `echo "$GIVEN"`); out != "yes\n" {
		t.Errorf("a new command says %q", out)
	}
	if row, proof, err := d.Sandboxes.Kill(t.Context(), id); err != nil || proof.Left != 0 || proof.Killed < 1 || row.State != api.SandboxEnded {
		t.Errorf("killed %+v, %+v, %v", row, proof, err)
	}
	if left := must(d.backend.Orphans(t.Context()))(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// sh runs a command to its end.
func (d *daemon) sh(t *testing.T, id api.SandboxID, text string) string {
	t.Helper()
	s, err := d.Guests.StartExec(t.Context(), id, api.ExecRequest{Args: []string{"sh", "-c", text}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Data != nil {
			out.Write(ev.Data.Stdout)
		}
	}
}

// TestAdoptPaused: what is paused goes on standing, and its commands are read on
// from when it continues.
func TestAdoptPaused(t *testing.T) {
	t.Parallel()
	for _, r := range openDaemon(t, t.TempDir(), nil).Backends.Reports(t.Context()) {
		if a, ok := r.Has(api.CapPause); r.Backend == "container" && !ok {
			t.Skipf("this host pauses no container: %s", a.Reason)
		}
	}
	dir := t.TempDir()
	made := killDaemon(t, dir, "paused")
	id := api.SandboxID(made["box"])
	d := openDaemon(t, dir, nil)
	if did := d.recover(t); did.Adopted != 1 {
		t.Fatalf("recovered %+v", did)
	}
	if s := must(d.Sandboxes.Get(t.Context(), id))(t); s.State != api.SandboxPaused {
		t.Fatalf("it is %s", s.State)
	}
	if _, err := d.Guests.StartExec(t.Context(), id, api.ExecRequest{Args: []string{"true"}}); api.KindOf(err) != api.KindConflict {
		t.Errorf("a command in a paused sandbox: %v", err)
	}
	if _, err := d.Sandboxes.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if out, end := d.output(t, id, api.ExecID(made["counting"]), 0); out != counted() || end.ExitCode != 7 {
		t.Errorf("exit %d, %d bytes", end.ExitCode, len(out))
	}
	if row := d.final(t, api.ExecID(made["counting"])); row.Exit.Code != 7 || row.OutputBytes != int64(len(counted())) {
		t.Errorf("record %+v", row)
	}
}

// TestNotAdopted: what cannot continue, or must not, is ended, and its row says why.
func TestNotAdopted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, why string }{
		{"task", "the task that used the sandbox"}, {"held", "the connection that held the sandbox"}, {"process", "cannot be taken over"},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			id := api.SandboxID(killDaemon(t, dir, c.what)["box"])
			d := openDaemon(t, dir, nil)
			if did := d.recover(t); did.Adopted != 0 || did.Lost != 1 {
				t.Errorf("recovered %+v", did)
			}
			if s := must(d.Sandboxes.Get(t.Context(), id))(t); s.State != api.SandboxLost || !strings.Contains(s.Reason, c.why) {
				t.Errorf("it is %s: %q", s.State, s.Reason)
			}
			if left := must(d.backend.Orphans(t.Context()))(t); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestAdoptLeavesNoPool: guests that nobody had asked for end with their daemon.
func TestAdoptLeavesNoPool(t *testing.T) {
	dir := t.TempDir()
	id := api.SandboxID(killDaemon(t, dir, "pool")["box"])
	d := openDaemon(t, dir, nil)
	if did := d.recover(t); did.Adopted != 1 || did.Lost != 0 {
		t.Errorf("recovered %+v", did)
	}
	if left := must(d.backend.Orphans(t.Context()))(t); len(left) != 1 || left[0] != id {
		t.Errorf("there are %v, want %s alone", left, id)
	}
}

// TestAdoptLost: one whose guest went too is lost, and its command unknown.
func TestAdoptLost(t *testing.T) {
	dir := t.TempDir()
	made := killDaemon(t, dir, "sleeping")
	id := api.SandboxID(made["box"])
	d := openDaemon(t, dir, nil)
	if _, err := d.backend.Reclaim(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if did := d.recover(t); did.Lost != 1 {
		t.Errorf("recovered %+v", did)
	}
	if s := must(d.Sandboxes.Get(t.Context(), id))(t); s.State != api.SandboxLost || !strings.Contains(s.Reason, "the sandbox ended before the next daemon started") {
		t.Errorf("it is %s: %q", s.State, s.Reason)
	}
	if row := d.final(t, api.ExecID(made["sleeping"])); row.State != api.ExecUnknown || row.Exit.Code != -1 || row.Exit.Cause != api.CauseLost {
		t.Errorf("record %+v", row)
	}
}

// TestLeave: a daemon that is told to leave its sandboxes running hands them over with
// their commands; what cannot be handed over it ends.
func TestLeave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := openDaemon(t, dir, nil)
	sandbox := must(d.Creator.Create(t.Context(), keptSandbox()))(t)
	trusted := must(d.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process"}))(t)
	st, err := d.Guests.StartExec(t.Context(), sandbox.ID, api.ExecRequest{Args: []string{"sh", "-c", counting}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	x := st.Exec().ID
	if n, err := d.Leave(t.Context()); err != nil || n != 1 {
		t.Fatalf("left %d, %v", n, err)
	}
	for err == nil {
		_, err = st.Next()
	}
	if api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "keeps running") {
		t.Errorf("its reader hears %v", err)
	}
	if _, err := d.Creator.Create(t.Context(), keptSandbox()); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("created after the leave: %v", err)
	}
	if s := must(d.db.Sandbox(t.Context(), trusted.ID))(t); s.State != api.SandboxEnded {
		t.Errorf("one that cannot be handed over is %s", s.State)
	}
	if err := d.Close(t.Context()); err != nil { // as a daemon does at its end
		t.Fatal(err)
	}
	d.log.Close()
	if err := d.db.Close(); err != nil {
		t.Fatal(err)
	}
	next := openDaemon(t, dir, nil)
	if did := next.recover(t); did.Adopted != 1 || did.Lost != 0 {
		t.Fatalf("recovered %+v", did)
	}
	if out, end := next.output(t, sandbox.ID, x, 0); out != counted() || end.ExitCode != 7 {
		t.Errorf("exit %d, %d bytes", end.ExitCode, len(out))
	}
	if row := next.final(t, x); row.State != api.ExecExited || row.Exit.Code != 7 {
		t.Errorf("record %+v", row)
	}
}
