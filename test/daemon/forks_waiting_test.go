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
	"hortus.dev/internal/daemon"
	"hortus.dev/test/world"
)

// TestForksFromThePool: after a fork, kernels wait for the next one. Its children are they, also one that was killed while it waited, and
// none of them is left afterwards.
func TestForksFromThePool(t *testing.T) {
	t.Parallel()
	const pool = 3
	w := world.Open(t, world.Config{GVisor: true, Config: daemon.Config{Pool: pool}})
	w.Isolates(t, "gvisor")
	ctx := t.Context()
	sandbox := world.Must(w.Client.Sandboxes.Create(ctx, api.CreateSandbox{Isolation: "gvisor", TTLMS: (10 * time.Minute).Milliseconds(), Env: map[string]string{"OF": "parent"}}))(t)
	out := func(b *client.Sandbox, script string) string {
		t.Helper()
		got, err := b.Command(ctx, "/bin/sh", "-c", script).Output()
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		return strings.TrimSpace(string(got))
	}
	out(sandbox, "{ t=$(od -An -N8 -tx8 /dev/urandom); i=0; while :; do i=$((i+1)); echo $t $i >/tmp/new; mv /tmp/new /tmp/count; sleep 0.05; done; } >/dev/null 2>&1 & until test -s /tmp/count; do sleep 0.05; done")
	full := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, soon)
		defer cancel()
		if err := w.Sandboxes.Creator.AwaitWarm(ctx); err != nil {
			ready, want := w.Sandboxes.Creator.Warm()
			t.Fatalf("%d of %d guests wait: %v", ready, want, err)
		}
	}
	fork := func(count int) (children []*client.Sandbox) {
		t.Helper()
		forked := world.Must(sandbox.Fork(ctx, api.ForkSandbox{Count: count}))(t)
		for _, c := range forked.Children {
			if c.Error != nil {
				t.Fatal(c.Error)
			}
			child := world.Must(w.Client.Sandboxes.Get(ctx, string(c.Sandbox.ID)))(t)
			children = append(children, child)
		}
		return children
	}
	machines := func() (ids []api.SandboxID) {
		entries := world.Must(os.ReadDir(filepath.Join(string(w.Dir), "run", "gvisor")))(t)
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
	if len(waiting) != pool {
		t.Fatalf("%v wait after a fork, want %d", waiting, pool)
	}
	// One of them ends.
	var pid int
	b, err := os.ReadFile(filepath.Join(string(w.Dir), "run", "gvisor", string(waiting[1]), "pid"))
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
	token := strings.Fields(out(sandbox, "cat /tmp/count"))[0]
	ids := map[api.SandboxID]bool{}
	for _, c := range children {
		ids[c.ID()] = true
		if got := out(c, "hostname; echo $OF; cut -d' ' -f1 /tmp/count"); got != string(c.ID())+"\nparent\n"+token {
			t.Errorf("child %s has %q", c.ID(), got)
		}
		// The program goes on.
		out(c, `n=$(cat /tmp/count); while [ "$n" = "$(cat /tmp/count)" ]; do sleep 0.05; done; echo own >/tmp/own`)
	}
	for _, id := range waiting {
		if !ids[id] {
			t.Errorf("%s waited, and is not one of the children %v", id, ids)
		}
	}
	if got := out(sandbox, "ls /tmp"); strings.Contains(got, "own") {
		t.Errorf("the parent has %q", got)
	}
	for _, b := range append(append(children, first...), sandbox) {
		if k, err := b.Kill(ctx); err != nil || k.Proof.Left != 0 {
			t.Errorf("%+v, %v", k, err)
		}
	}
	w.Stop()
	if left := machines(); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}
