package storetest

import (
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// testProvisioned finds sandboxes by the tasks of accounts' own.
func testProvisioned(t *testing.T, s store.Store) {
	ctx := t.Context()
	made := func(account, task string, state api.SandboxState, at time.Duration) api.Sandbox {
		return newSandbox(t, s, func(b *api.Sandbox) {
			b.Account, b.State, b.CreatedAt = account, state, began.Add(at)
			if task != "" {
				b.Provision = &api.ProvisionRequest{TaskID: task, ImageID: "host", TTLSeconds: 7}
				b.Env = map[string]string{"A": "\xff"}
			}
		})
	}
	first := made("a", "t1", api.SandboxEnded, 0)
	lives := made("a", "t1", api.SandboxRunning, time.Second)
	last := made("a", "t1", api.SandboxLost, 2*time.Second)
	others := made("b", "t1", api.SandboxPaused, 3*time.Second)
	operators := made("", "t1", api.SandboxStarting, time.Second)
	gone := made("a", "t2", api.SandboxEnded, 0)
	goneLater := made("a", "t2", api.SandboxEnded, 0) // of the same instant
	made("a", "", api.SandboxRunning, 4*time.Second)
	for _, test := range []struct {
		account, task string
		ended         bool
		want          api.SandboxID
	}{
		{"a", "t1", false, lives.ID}, {"a", "t1", true, last.ID}, {"b", "t1", false, others.ID}, {"", "t1", true, operators.ID},
		{"a", "t2", false, ""}, {"a", "t2", true, goneLater.ID}, {"b", "t2", true, ""}, {"", "t2", true, ""},
		{"a", "", true, ""}, {"a", "t", true, ""}, {"a", "T1", true, ""}, {"a", "' OR 1=1 --", true, ""}, {"' OR 1=1 --", "t1", true, ""},
	} {
		got, err := s.ProvisionedOf(ctx, test.account, test.task, test.ended)
		if test.want == "" {
			wantKind(t, err, api.KindNotFound)
		} else if err != nil || got.ID != test.want || got.Provision == nil || !test.ended && got.Env["A"] != "\xff" {
			t.Errorf("%q of %q, ended %v: %+v, %v; want %s (of %s, %s)", test.task, test.account, test.ended, got, err, test.want, first.ID, gone.ID)
		}
	}
	// An update keeps it, and ends it.
	lives.State = api.SandboxEnded
	must(t, s.UpdateSandbox(ctx, lives))
	_, err := s.ProvisionedOf(ctx, "a", "t1", false)
	wantKind(t, err, api.KindNotFound)
}
