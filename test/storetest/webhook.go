package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func appendState(t *testing.T, s store.Store, id api.SandboxID, state api.SandboxState) {
	t.Helper()
	_, err := s.AppendEvent(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(id)}, api.EventSandboxState, began, fmt.Appendf(nil, `{"state":%q}`, state))
	must(t, err)
}

// typesOf lists events as "sequence number of the sandbox's log, type".
func typesOf(t *testing.T, s store.Store, f api.LifecycleFilter) (out []string) {
	t.Helper()
	f.Limit = max(f.Limit, 1)
	all, err := s.LifecycleEvents(t.Context(), f)
	must(t, err)
	for _, e := range all {
		out = append(out, fmt.Sprint(e.Number, " ", e.Type))
	}
	return out
}

func testLifecycle(t *testing.T, s store.Store) {
	ctx := t.Context()
	n, err := s.NewestLifecycle(ctx)
	if err != nil || n != 0 {
		t.Fatal(n, err)
	}
	alice := newSandbox(t, s, func(b *api.Sandbox) { b.Account, b.Labels = "alice", map[string]string{"a": "b"} })
	stream := api.Stream{Kind: api.StreamSandbox, ID: string(alice.ID)}
	appendState(t, s, alice.ID, api.SandboxRunning)
	_, err = s.AppendEvent(ctx, stream, api.EventExecStarted, began, json.RawMessage(`{"state":"paused"}`))
	must(t, err)
	// A daemon that takes it over says once more that it runs.
	appendState(t, s, alice.ID, api.SandboxRunning)
	_, err = s.AppendEvent(ctx, stream, api.EventUpdated, began, json.RawMessage(`{"expiresAt":"2026-03-04T05:06:07Z"}`))
	must(t, err)
	for _, state := range []api.SandboxState{api.SandboxPaused, api.SandboxRunning, api.SandboxLost} {
		appendState(t, s, alice.ID, state)
	}
	operators := newSandbox(t, s, nil)
	appendState(t, s, operators.ID, api.SandboxRunning)
	failed := newSandbox(t, s, func(b *api.Sandbox) { b.Account = "alice" })
	appendState(t, s, failed.ID, api.SandboxEnded) // it never ran
	_, err = s.AppendEvent(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(failed.ID)}, api.EventSandboxState, began, nil)
	must(t, err)

	all := []string{"1 created", "4 updated", "5 paused", "6 resumed", "7 killed"}
	for name, c := range map[string]struct {
		f    api.LifecycleFilter
		want []string
	}{
		"all":                 {api.LifecycleFilter{Account: "alice", Ascending: true, Limit: 9}, all},
		"newest":              {api.LifecycleFilter{Account: "alice", Limit: 2}, []string{"7 killed", "6 resumed"}},
		"offset":              {api.LifecycleFilter{Account: "alice", Ascending: true, Offset: 3, Limit: 9}, all[3:]},
		"types":               {api.LifecycleFilter{Account: "alice", Limit: 9, Types: []api.LifecycleType{api.LifecyclePaused, api.LifecycleCreated}}, []string{"5 paused", "1 created"}},
		"sandbox":             {api.LifecycleFilter{Account: "alice", Sandbox: failed.ID, Limit: 9}, nil},
		"the operator's":      {api.LifecycleFilter{Limit: 9}, []string{"1 created"}},
		"another account":     {api.LifecycleFilter{Account: "bob", Limit: 9}, nil},
		"a sandbox of others": {api.LifecycleFilter{Account: "bob", Sandbox: alice.ID, Limit: 9}, nil},
	} {
		if diff := cmp.Diff(c.want, typesOf(t, s, c.f)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	first, err := s.LifecycleEvents(ctx, api.LifecycleFilter{Account: "alice", Ascending: true, Limit: 1})
	if err != nil || first[0].Sandbox.Labels["a"] != "b" || string(first[0].Data) != `{"state":"running"}` || !first[0].At.Equal(began) {
		t.Errorf("%+v, %v", first, err)
	}
	if diff := cmp.Diff(all[1:2], typesOf(t, s, api.LifecycleFilter{Account: "alice", Ascending: true, After: first[0].Seq})); diff != "" {
		t.Error(diff)
	}
	_, err = s.LifecycleEvents(ctx, api.LifecycleFilter{})
	wantKind(t, err, api.KindInvalid)

	// They are removed with the log, and their numbers are not used again.
	before, err := s.NewestLifecycle(ctx)
	must(t, err)
	for _, id := range []api.SandboxID{alice.ID, operators.ID} {
		b, err := s.Sandbox(ctx, id)
		must(t, err)
		b.State, b.EndedAt = api.SandboxEnded, began
		must(t, s.UpdateSandbox(ctx, b))
	}
	_, err = s.Prune(ctx, store.Retention{Rows: 9, Execs: 9, Decisions: 9, Bytes: 1 << 20, Before: began.Add(time.Hour)})
	must(t, err)
	if got := typesOf(t, s, api.LifecycleFilter{Account: "alice"}); got != nil {
		t.Error(got)
	}
	appendState(t, s, newSandbox(t, s, nil).ID, api.SandboxRunning)
	if after, err := s.NewestLifecycle(ctx); err != nil || after <= before {
		t.Errorf("%d after %d, %v", after, before, err)
	}
}

func testWebhooks(t *testing.T, s store.Store) {
	ctx := t.Context()
	appendState(t, s, newSandbox(t, s, nil).ID, api.SandboxRunning)
	newest, err := s.NewestLifecycle(ctx)
	must(t, err)
	w := api.Webhook{ID: "w1", Account: "alice", Name: "n", URL: "https://example.org/", Enabled: true, Events: []api.LifecycleType{api.LifecycleKilled}, CreatedAt: began}
	must(t, s.InsertWebhook(ctx, w, "secret one", 2))
	w.Position = newest
	have, err := s.Webhook(ctx, "alice", "w1")
	if diff := cmp.Diff(w, have); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	wantKind(t, s.InsertWebhook(ctx, w, "x", 2), api.KindExists)
	second := w
	second.ID, second.Enabled = "w2", false
	must(t, s.InsertWebhook(ctx, second, "secret two", 2))
	third := w
	third.ID = "w3"
	wantKind(t, s.InsertWebhook(ctx, third, "x", 2), api.KindExhausted)
	third.Account = "bob"
	must(t, s.InsertWebhook(ctx, third, "x", 2))
	wantKind(t, s.InsertWebhook(ctx, api.Webhook{ID: "w4"}, "x", 9), api.KindInvalid)
	wantKind(t, s.InsertWebhook(ctx, w, "", 9), api.KindInvalid)

	ids := func(all []api.Webhook, err error) (out []string) {
		must(t, err)
		for _, w := range all {
			out = append(out, w.ID)
		}
		return out
	}
	if diff := cmp.Diff([]string{"w1", "w2"}, ids(s.WebhooksOf(ctx, "alice"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"w1", "w3"}, ids(s.EnabledWebhooks(ctx))); diff != "" {
		t.Error(diff)
	}

	// Another account has none of it.
	_, err = s.Webhook(ctx, "bob", "w1")
	wantKind(t, err, api.KindNotFound)
	wantKind(t, s.RemoveWebhook(ctx, "bob", "w1"), api.KindNotFound)
	stolen := w
	stolen.Account = "bob"
	wantKind(t, s.UpdateWebhook(ctx, stolen, ""), api.KindNotFound)
	_, err = s.WebhookSecret(ctx, "bob", "w1")
	wantKind(t, err, api.KindConflict)

	// An update keeps the secret and the position, unless it enables.
	appendState(t, s, newSandbox(t, s, nil).ID, api.SandboxRunning)
	w.Name = "renamed"
	must(t, s.UpdateWebhook(ctx, w, ""))
	second.Enabled, second.Events = true, api.LifecycleTypes()
	must(t, s.UpdateWebhook(ctx, second, "secret three"))
	if have, err = s.Webhook(ctx, "alice", "w1"); err != nil || have.Name != "renamed" || have.Position != newest {
		t.Errorf("%+v, %v", have, err)
	}
	if have, err = s.Webhook(ctx, "alice", "w2"); err != nil || have.Position <= newest || len(have.Events) != len(api.LifecycleTypes()) {
		t.Errorf("%+v, %v", have, err)
	}
	for id, want := range map[string]string{"w1": "secret one", "w2": "secret three"} {
		if got, err := s.WebhookSecret(ctx, "alice", id); err != nil || got != want {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}

	// Attempts are bounded, and only the last of an event moves the position, never back.
	for i := range 4 {
		must(t, s.PutDelivery(ctx, api.WebhookDelivery{ID: fmt.Sprint("d", i), Webhook: "w1", Event: newest + 7, Attempt: i + 1, At: began, Last: i == 2}, 3))
		have, err = s.Webhook(ctx, "alice", "w1")
		if want := newest + map[bool]int64{true: 7}[i >= 2]; err != nil || have.Position != want {
			t.Errorf("after attempt %d: %d, %v; want %d", i, have.Position, err, want)
		}
	}
	must(t, s.PutDelivery(ctx, api.WebhookDelivery{ID: "d4", Webhook: "w1", Event: newest, Last: true, At: began}, 3))
	if have, err = s.Webhook(ctx, "alice", "w1"); err != nil || have.Position != newest+7 {
		t.Errorf("%+v, %v", have, err)
	}
	all, err := s.Deliveries(ctx, "alice", "w1", 9)
	if err != nil || len(all) != 3 || all[0].ID != "d4" || all[2].ID != "d2" {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err = s.Deliveries(ctx, "bob", "w1", 9); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	must(t, s.RemoveWebhook(ctx, "alice", "w1"))
	wantKind(t, s.PutDelivery(ctx, api.WebhookDelivery{ID: "d9", Webhook: "w1", At: began}, 3), api.KindNotFound)
	if all, err = s.Deliveries(ctx, "alice", "w1", 9); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
