package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	testtools "hortus.dev/test/tools"
)

// TestForksFromThePool: after a fork, kernels wait for the next one. Its children are they, also one that was killed while it waited, and
// none of them is left afterwards.
func TestForksFromThePool(t *testing.T) {
	cfg := Config{DataDir: t.TempDir(), Home: os.Getenv("HOME"), Path: os.Getenv("PATH"), Runsc: filepath.Join(testtools.Dir(t), testtools.Runsc), Pool: 3}
	withTemplate(t, cfg)
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	v := &vault{t: t, w: &town{t: t, s: s}}
	ended := false
	end := func() {
		if !ended {
			ended = true
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(end)
	v.onSocket()
	if d, err := v.c.Doctor(t.Context()); err != nil || d.Auto != "gvisor" {
		t.Skipf("no gvisor here: %s, %v", d.AutoWhy, err)
	}
	ctx := t.Context()
	box, err := v.c.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "gvisor", TTLMS: (10 * time.Minute).Milliseconds(), Env: map[string]string{"OF": "parent"}})
	if err != nil {
		t.Fatal(err)
	}
	out := func(b *client.Sandbox, script string) string {
		t.Helper()
		got, err := b.Command(ctx, "/bin/sh", "-c", script).Output()
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		return strings.TrimSpace(string(got))
	}
	out(box, strings.Join(counter("/tmp/count")[2:], "")+" >/dev/null 2>&1 & sleep 0.5")
	full := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := s.sandboxes.Creator.AwaitWarm(ctx); err != nil {
			ready, want := s.sandboxes.Creator.Warm()
			t.Fatalf("%d of %d guests wait: %v", ready, want, err)
		}
	}
	fork := func(count int) (children []*client.Sandbox) {
		t.Helper()
		forked, err := box.Fork(ctx, api.ForkSandbox{Count: count})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range forked.Children {
			if c.Error != nil {
				t.Fatal(c.Error)
			}
			child, err := v.c.Sandboxes.Get(ctx, string(c.Sandbox.ID))
			if err != nil {
				t.Fatal(err)
			}
			children = append(children, child)
		}
		return children
	}
	machines := func() (ids []api.SandboxID) {
		entries, err := os.ReadDir(filepath.Join(cfg.DataDir, "run", "gvisor"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if id := api.SandboxID(e.Name()); id.Valid() {
				ids = append(ids, id)
			}
		}
		return ids
	}
	// What waits after the first fork, and did not before.
	full()
	before := machines()
	first := fork(1)
	full()
	var waiting []api.SandboxID
	for _, id := range machines() {
		if !slices.Contains(before, id) && id != first[0].ID() {
			waiting = append(waiting, id)
		}
	}
	if len(waiting) != cfg.Pool {
		t.Fatalf("%v wait after a fork, want %d", waiting, cfg.Pool)
	}
	// One of them ends.
	var pid int
	b, err := os.ReadFile(filepath.Join(cfg.DataDir, "run", "gvisor", string(waiting[1]), "pid"))
	if err == nil {
		_, err = fmt.Sscan(string(b), &pid)
	}
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	children := fork(4)
	token := strings.Fields(out(box, "cat /tmp/count"))[0]
	ids := map[api.SandboxID]bool{}
	for _, c := range children {
		ids[c.ID()] = true
		if got := out(c, "hostname; echo $OF; cut -d' ' -f1 /tmp/count"); got != string(c.ID())+"\nparent\n"+token {
			t.Errorf("child %s has %q", c.ID(), got)
		}
		n := out(c, "cat /tmp/count")
		if m := out(c, "sleep 0.5; cat /tmp/count"); m == n {
			t.Errorf("the program of child %s does not go on after %s", c.ID(), n)
		}
		out(c, "echo own >/tmp/own")
	}
	for _, id := range waiting {
		if !ids[id] {
			t.Errorf("%s waited, and is not one of the children %v", id, ids)
		}
	}
	if got := out(box, "ls /tmp"); strings.Contains(got, "own") {
		t.Errorf("the parent has %q", got)
	}
	for _, b := range append(append(children, first...), box) {
		if k, err := b.Kill(ctx); err != nil || k.Proof.Left != 0 {
			t.Errorf("%+v, %v", k, err)
		}
	}
	end()
	if left := machines(); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}
