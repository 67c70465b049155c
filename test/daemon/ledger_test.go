package daemon

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/sandbox/admission"
	"hortus.dev/test/world"
)

// ended waits for the end of a sandbox and returns the reason.
func ended(t *testing.T, s *client.Sandbox) string {
	t.Helper()
	var row api.Sandbox
	world.Eventually(t, "the sandbox ends", func() bool {
		row = world.Must(s.Info(t.Context()))(t)
		return row.State.Final()
	})
	return row.Reason
}

// write has a sandbox write MiB into a file of its workspace.
func write(t *testing.T, s *client.Sandbox, name string, mib int) error {
	t.Helper()
	out, err := world.Sh(t, s, fmt.Sprintf("head -c %d /dev/urandom > /workspace/%s && sync", mib<<20, name))
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// TestOneAccountFillsTheDisk: a key that stores all that it can, in workspaces, forks of them, snapshots, uploads and
// output of tasks, reaches the ceiling of its account. Another account does not notice: its sandbox runs on and its
// writes succeed. What frees space works at the ceiling.
func TestOneAccountFillsTheDisk(t *testing.T) {
	t.Parallel()
	const ceiling = 160 << 20
	dir := smallDisk(t, "1g")
	w := world.Open(t, world.Config{Config: daemon.Config{DataDir: dir, AccountBytes: ceiling, Room: admission.Config{Overcommit: 10_000}}})
	w.Isolates(t, "")
	ctx := t.Context()
	alice, bob := w.As(w.Key("alice", "")), w.As(w.Key("bob", ""))
	refused := func(what string, err error) {
		t.Helper()
		// The protocol of guests has no hints.
		hint := what == "an upload" || strings.Contains(api.HintOf(err), "hortus workspace rm")
		if api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), `account "alice"`) || !strings.Contains(err.Error(), fmt.Sprint(ceiling)) || !hint {
			t.Errorf("%s at the ceiling: %v (%s)", what, err, api.HintOf(err))
		}
	}
	world.Must(bob.Workspaces.Create(ctx, api.CreateWorkspace{Name: "work"}))(t)
	bobs := world.Sandbox(t, bob, api.CreateSandbox{Workspace: "work"})
	world.OK(t, write(t, bobs, "begun", 1))
	median := func() time.Duration { // of a command that writes, and an upload
		var all []time.Duration
		for range 15 {
			began := time.Now()
			world.OK(t, write(t, bobs, "again", 1))
			world.OK(t, bobs.WriteFile(ctx, "", "/workspace/upload", strings.NewReader("x")))
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	alone := median()

	// Several workspaces: the one that grows is ended at the ceiling, and another one that does not is not.
	world.Must(alice.Workspaces.Create(ctx, api.CreateWorkspace{Name: "first"}))(t)
	first := world.Sandbox(t, alice, api.CreateSandbox{Workspace: "first"})
	world.OK(t, write(t, first, "large", 100))
	world.Must(first.Kill(ctx))(t)
	plain := world.Sandbox(t, alice, api.CreateSandbox{})
	saved := world.Must(plain.Snapshot(ctx, api.CreateSnapshot{}))(t)
	for _, name := range []string{"second", "third"} {
		world.Must(alice.Workspaces.Create(ctx, api.CreateWorkspace{Name: name}))(t)
	}
	second := world.Sandbox(t, alice, api.CreateSandbox{Workspace: "second"})
	third := world.Sandbox(t, alice, api.CreateSandbox{Workspace: "third"})
	world.OK(t, third.WriteFile(ctx, "", "/workspace/small", strings.NewReader("x")))
	go func() { _ = write(t, second, "large", 300) }()
	if why := ended(t, second); !strings.HasPrefix(why, api.CauseAccount) || !strings.Contains(why, `account "alice" stores`) {
		t.Errorf("the sandbox that grows ended: %s", why)
	}
	if row := world.Must(third.Info(ctx))(t); row.State != api.SandboxRunning {
		t.Errorf("the sandbox that does not grow is %s: %s", row.State, row.Reason)
	}
	for what, do := range map[string]func() error{
		"a workspace": func() error {
			_, err := alice.Workspaces.Create(ctx, api.CreateWorkspace{Name: "fourth"})
			return err
		},
		"a fork": func() error {
			_, err := alice.Workspaces.Fork(ctx, "first", api.ForkWorkspace{Name: "fork"})
			return err
		},
		"a snapshot": func() error { _, err := plain.Snapshot(ctx, api.CreateSnapshot{}); return err },
		"an upload":  func() error { return third.WriteFile(ctx, "", "/workspace/f", strings.NewReader("x")) },
		"a task": func() error {
			_, err := alice.Tasks.Create(ctx, api.CreateTask{Artifact: printing("print(1)")})
			return err
		},
		"a document": func() error {
			_, err := alice.Documents.Put(ctx, "prd", api.PutDocument{Text: "x"})
			return err
		},
		"a sandbox with a workspace": func() error {
			_, err := alice.Sandboxes.Create(ctx, api.CreateSandbox{Workspace: "first"})
			return err
		},
	} {
		refused(what, do())
	}

	// The other account, while the attacks continue.
	attack, over := context.WithCancel(ctx)
	var attacks sync.WaitGroup
	attacks.Go(func() {
		for attack.Err() == nil {
			_, _ = alice.Workspaces.Create(attack, api.CreateWorkspace{Name: "fourth"})
			_, _ = plain.Snapshot(attack, api.CreateSnapshot{})
			_ = third.WriteFile(attack, "", "/workspace/f", strings.NewReader(strings.Repeat("x", 1<<20)))
		}
	})
	beside := median()
	over()
	attacks.Wait()
	if ratio := float64(beside) / float64(alone); ratio > 10 && beside > time.Second { // less is the load of this machine
		t.Errorf("what another account does takes %s instead of %s: %.1f times as long", beside, alone, ratio)
	} else {
		t.Logf("what another account does takes %s instead of %s: %.1f times as long", beside, alone, ratio)
	}
	if row := world.Must(bobs.Info(ctx))(t); row.State != api.SandboxRunning {
		t.Fatalf("the sandbox of another account is %s: %s", row.State, row.Reason)
	}
	world.OK(t, write(t, bobs, "more", 10))
	world.OK(t, bobs.WriteFile(ctx, "", "/workspace/upload", strings.NewReader("x")))
	world.Must(bob.Workspaces.Create(ctx, api.CreateWorkspace{Name: "next"}))(t)
	world.Must(world.Sandbox(t, bob, api.CreateSandbox{}).Snapshot(ctx, api.CreateSnapshot{}))(t)
	world.Must(bob.Documents.Put(ctx, "prd", api.PutDocument{Text: "x"}))(t)
	if done, _ := world.RunTask(t, bob, api.CreateTask{Artifact: printing("print(1)")}); done.Outcome != api.OutcomeVerified {
		t.Errorf("the task of another account is %s: %s", done.Outcome, done.Error)
	}

	// An operator sees all accounts, a key its own.
	usage := func(c *client.Client) map[string]admin.AccountUsage {
		out := map[string]admin.AccountUsage{}
		for _, u := range world.Must(c.DiskUsage(ctx))(t).Accounts {
			out[u.Account] = u
		}
		return out
	}
	world.Eventually(t, "an operator sees what accounts store", func() bool { // running sandboxes are measured now and then
		all := usage(w.Client)
		return all["alice"].Bytes > ceiling && all["alice"].LimitBytes == ceiling && all["bob"].Bytes > 11<<20 && all["bob"].Bytes < ceiling/2
	})
	if own := usage(bob); len(own) != 1 || own["bob"].Bytes < 11<<20 {
		t.Errorf("bob sees %+v", own)
	}

	// What frees space works at the ceiling, and what was freed can be used at once.
	world.Must(third.Kill(ctx))(t)
	world.Must(alice.Workspaces.List(ctx))(t)
	world.Must(alice.Snapshots.List(ctx, true))(t)
	world.Must(alice.Snapshots.Remove(ctx, string(saved.ID)))(t)
	world.Must(w.Client.Collect(ctx, admin.CollectRequest{}))(t)
	world.Must(alice.Workspaces.Remove(ctx, "second"))(t)
	world.Must(alice.Workspaces.Remove(ctx, "first"))(t)

	// Output of a task, which is discarded beyond the ceiling.
	task := world.Must(alice.Tasks.Create(ctx, api.CreateTask{Artifact: printing("for _ in range(4000): print('x' * 65536)")}))(t)
	done, _ := world.Follow(t, alice, task.ID)
	r := world.Must(alice.Tasks.Output(ctx, task.ID, 1, "stdout"))(t)
	defer r.Close()
	out := string(world.Must(io.ReadAll(r))(t))
	if done.Outcome != api.OutcomeVerified || int64(len(out)) > ceiling || usage(w.Client)["alice"].Bytes > ceiling+16<<20 {
		t.Errorf("the task is %s, its output has %d bytes, the account %+v", done.Outcome, len(out), usage(w.Client)["alice"])
	}
}

// TestFloorIsPaidByTheLargest: accounts whose ceilings are larger than the disk reach the floor of the disk. The sandbox
// of the one that stores most ends, whichever of them grows; the others continue and write.
func TestFloorIsPaidByTheLargest(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "1g")
	w := world.Open(t, world.Config{Config: daemon.Config{DataDir: dir, AccountBytes: -1, Room: admission.Config{Overcommit: 10_000}}})
	w.Isolates(t, "")
	ctx := t.Context()
	boxes := map[string]*client.Sandbox{}
	for name, c := range map[string]*client.Client{"alice": w.As(w.Key("alice", "")), "bob": w.As(w.Key("bob", "")), "operator": w.Client} {
		world.Must(c.Workspaces.Create(ctx, api.CreateWorkspace{Name: "work"}))(t)
		boxes[name] = world.Sandbox(t, c, api.CreateSandbox{Workspace: "work"})
		world.OK(t, write(t, boxes[name], "begun", 10))
	}
	var st unix.Statfs_t
	world.OK(t, unix.Statfs(dir, &st))
	free := int(int64(st.Bavail) * st.Bsize >> 20)
	go func() { _ = write(t, boxes["alice"], "large", free) }()
	if why := ended(t, boxes["alice"]); !strings.HasPrefix(why, api.CauseFull) || !strings.Contains(why, `account "alice" stores`) {
		t.Errorf("the sandbox of the largest account ended: %s", why)
	}
	for _, name := range []string{"bob", "operator"} {
		if row := world.Must(boxes[name].Info(ctx))(t); row.State != api.SandboxRunning {
			t.Errorf("the sandbox of %s is %s: %s", name, row.State, row.Reason)
			continue
		}
		if err := write(t, boxes[name], "more", 2); err != nil {
			t.Errorf("%s writes: %v", name, err)
		}
	}
}
