package manager_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/manager"
)

// TestOnRestore: the command of a template has run in each sandbox that is handed out, whether its guest was
// restored ahead or not, and in each fork and what starts from a snapshot of one.
func TestOnRestore(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{pool: 1})
	const command = "echo restored >>f"
	s, err := w.Templates.CreateTemplate(t.Context(), api.CreateTemplate{Name: "py", Isolation: "process", Run: []string{"echo made >f"}, OnRestore: command}, nil)
	if err != nil || s.OnRestore != command {
		t.Fatalf("%+v, %v", s, err)
	}
	has := func(row api.Sandbox, want int) {
		t.Helper()
		out, _, err := w.run(t, row.ID, "cat f", nil)
		if err != nil || out != "made\n"+strings.Repeat("restored\n", want) || row.OnRestore != command {
			t.Errorf("%q after %d restores, %v: %+v", out, want, err, row)
		}
	}
	first := w.create(t, api.CreateSandbox{Template: "py"})
	has(first, 1)
	if err := w.Creator.AwaitWarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	has(w.create(t, api.CreateSandbox{Template: "py"}), 1)
	fork, err := w.Forker.Fork(t.Context(), first.ID, api.ForkSandbox{})
	if err != nil || fork.Children[0].Sandbox == nil {
		t.Fatalf("%+v, %v", fork, err)
	}
	has(*fork.Children[0].Sandbox, 2)
	if s, err = w.Saver.Snapshot(t.Context(), first.ID, api.CreateSnapshot{}); err != nil {
		t.Fatal(err)
	}
	has(w.create(t, api.CreateSandbox{Template: string(s.ID)}), 2)

	s, err = w.Templates.CreateTemplate(t.Context(), api.CreateTemplate{Name: "other", Isolation: "process", From: "py", OnRestore: "true"}, nil)
	if err != nil || s.OnRestore != "true" {
		t.Errorf("a template with another command: %+v, %v", s, err)
	}
}

// TestOnRestoreFails: a sandbox whose command fails does not exist, and the error has the output.
func TestOnRestoreFails(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{pool: 1})
	parent := w.create(t, api.CreateSandbox{})
	const command = "echo no luck >&2; exit 3"
	refused := func(how string, err error) {
		t.Helper()
		if api.KindOf(err) != api.KindConflict || !strings.Contains(err.Error(), "no luck") || !strings.Contains(err.Error(), "exit code 3") {
			t.Errorf("%s: %v", how, err)
		}
		eventually(t, "only the parent is left", func() bool { return w.Alive() == 1 })
	}
	fork, err := w.Forker.Fork(t.Context(), parent.ID, api.ForkSandbox{Count: 2, OnRestore: command})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range fork.Children {
		if c.Sandbox != nil || c.Error == nil {
			t.Fatalf("a child: %+v", c.Sandbox)
		}
		refused("fork", c.Error)
	}
	if _, err := w.Saver.Snapshot(t.Context(), parent.ID, api.CreateSnapshot{Name: "py", OnRestore: command}); err != nil {
		t.Fatal(err)
	}
	req := api.CreateSandbox{Isolation: "process", Template: "py"}
	_, err = w.Creator.Create(t.Context(), req)
	refused("create", err)
	if err := w.Creator.AwaitWarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = w.Creator.Create(t.Context(), req)
	refused("claim", err)

	if _, err := w.Saver.Snapshot(t.Context(), parent.ID, api.CreateSnapshot{Name: "slow", OnRestore: "sleep 1000"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	req.Template = "slow"
	go func() {
		_, err := w.Creator.Create(ctx, req)
		done <- err
	}()
	eventually(t, "the command runs", func() bool {
		rows, err := w.Sandboxes.List(t.Context(), false)
		return err == nil && slices.ContainsFunc(rows, func(r api.Sandbox) bool { return r.ID != parent.ID && r.State == api.SandboxRunning })
	})
	cancel()
	if err := <-done; api.KindOf(err) != api.KindCanceled {
		t.Errorf("cancelled: %v", err)
	}
	eventually(t, "only the parent is left", func() bool { return w.Alive() == 1 })
}

func TestOnRestoreIsBounded(t *testing.T) {
	w := openSaving(t, t.TempDir(), savingOptions{})
	s := w.create(t, api.CreateSandbox{})
	long := strings.Repeat("x", api.MaxOnRestore+1)
	_, err := w.Saver.Snapshot(t.Context(), s.ID, api.CreateSnapshot{OnRestore: long})
	_, ferr := w.Forker.Fork(t.Context(), s.ID, api.ForkSandbox{OnRestore: long})
	_, terr := w.Templates.CreateTemplate(t.Context(), api.CreateTemplate{Name: "py", OnRestore: long}, nil)
	for _, err := range []error{err, ferr, terr} {
		if api.KindOf(err) != api.KindInvalid || !strings.Contains(err.Error(), "maximum") {
			t.Errorf("too long: %v", err)
		}
	}
}

const listing = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   6: 0100007F:C33F 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65533        0        7 1 0000000000000000 0 0 0 0 -1
   9: 0100007F:1FBB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0       10 2 0000000000000000 0 0 0 0 -1
   9: 0100007F:1FBC 0100007F:1FBB 01 00000000:00000000 00:00000000 00000000  1000        0       11 2 0000000000000000 0 0 0 0 -1
   8: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0        8 1 0000000000000000 0 0 0 0 -1
process 1 hortus-guest
ls: cannot read symbolic link '/proc/1/fd/0': Permission denied
process 9 python 3
total 0
lrwx------ 1 user user 64 Nov 27 22:50 3 -> socket:[10]
lrwx------ 1 user user 64 Nov 27 22:50 4 -> socket:[11]
lrwx------ 1 user user 64 Nov 27 22:50 5 -> socket:[8]
`

func TestParseListeners(t *testing.T) {
	want := []api.Listener{{PID: 9, Command: "python 3", Port: 8123}, {PID: 9, Command: "python 3", Port: 80}}
	if got := manager.ParseListeners([]byte(listing)); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func FuzzParseListeners(f *testing.F) {
	f.Add([]byte(listing))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range manager.ParseListeners(b) {
			if l.PID <= 0 || l.Port <= 0 || l.Port > 65535 {
				t.Errorf("%+v", l)
			}
		}
	})
}
