package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// testPlans: a plan is written by its owner only, with its items in one transaction; plans that ended long ago are removed with their
// events.
func testPlans(t *testing.T, s store.Store) {
	ctx := t.Context()
	mine, others := newOwner(t, s), newOwner(t, s)
	row := func(account, repository string) store.Plan {
		return store.Plan{ID: api.NewPlanID(), Account: account, Repository: repository, Owner: mine, CreatedAt: began, Doc: []byte(`{"a":1}`), Items: 2}
	}
	item := func(n int, text string) store.PlanItem { return store.PlanItem{N: n, Doc: []byte(text)} }
	for _, bad := range []func(*store.Plan){
		func(p *store.Plan) { p.ID = "" }, func(p *store.Plan) { p.Repository = "" }, func(p *store.Plan) { p.Owner = "" }, func(p *store.Plan) { p.Doc = nil },
		func(p *store.Plan) { p.CreatedAt = time.Time{} }, func(p *store.Plan) { p.Done = true }, func(p *store.Plan) { p.EndedAt = began },
	} {
		p := row("alice", "r")
		bad(&p)
		wantKind(t, s.InsertPlan(ctx, p, 9), api.KindInvalid)
	}
	wantKind(t, s.InsertPlan(ctx, row("alice", "r"), 9, item(0, "x")), api.KindInvalid)
	big := row("alice", "r")
	big.Doc = make([]byte, store.MaxPlanDoc+1)
	wantKind(t, s.InsertPlan(ctx, big, 9), api.KindExhausted)

	a, b, c := row("alice", "r"), row("alice", "q"), row("", "r")
	must(t, s.InsertPlan(ctx, a, 2, item(1, "one"), item(2, "two")))
	must(t, s.InsertPlan(ctx, b, 2))
	must(t, s.InsertPlan(ctx, c, 2))
	wantKind(t, s.InsertPlan(ctx, a, 9), api.KindExists)
	wantKind(t, s.InsertPlan(ctx, row("alice", "r"), 2), api.KindExhausted)
	items := func(want ...store.PlanItem) {
		t.Helper()
		got, err := s.PlanItems(ctx, a.ID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	items(item(1, "one"), item(2, "two"))

	// Fewer items, another document.
	a.Doc, a.Items = []byte(`{"a":2}`), 1
	must(t, s.UpdatePlan(ctx, mine, a, item(1, "other")))
	items(item(1, "other"))
	got, err := s.Plan(ctx, a.ID)
	want := a
	want.Items = 0
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	// Somebody else writes nothing, until it is theirs.
	wantKind(t, s.UpdatePlan(ctx, others, a, item(1, "theirs")), api.KindConflict)
	items(item(1, "other"))
	a.Owner = others
	must(t, s.UpdatePlan(ctx, mine, a))
	wantKind(t, s.UpdatePlan(ctx, mine, a), api.KindConflict)

	ids := func(list []store.Plan, err error) string {
		must(t, err)
		out := ""
		for _, p := range list {
			out += fmt.Sprint(map[api.PlanID]string{a.ID: "a", b.ID: "b", c.ID: "c"}[p.ID])
		}
		return out
	}
	if got := ids(s.PlansOf(ctx, "alice", false, 9)) + " " + ids(s.OpenPlans(ctx, "")) + " " + ids(s.OpenPlans(ctx, "r")) + " " + ids(s.PlansOf(ctx, "alice", true, 1)); got != "ba abc ac b" {
		t.Errorf("lists: %s", got)
	}
	_, err = s.PlansOf(ctx, "alice", true, 0)
	wantKind(t, err, api.KindInvalid)
	_, err = s.Plan(ctx, api.NewPlanID())
	wantKind(t, err, api.KindNotFound)

	// It ends, can begin again, and is removed when it ended long ago.
	stream := api.Stream{Kind: "plan", ID: string(a.ID)}
	_, err = s.AppendEvent(ctx, stream, "plan.state", began, []byte("{}"))
	must(t, err)
	// Its events are stored with the row, or not at all.
	a.Events = []api.Event{{Stream: stream, At: began, Type: "plan.state", Data: []byte(`{"n":2}`)}, {Stream: stream, At: began, Type: "plan.finished", Data: []byte(`{"n":3}`)}}
	wantKind(t, s.UpdatePlan(ctx, mine, a), api.KindConflict)
	must(t, s.UpdatePlan(ctx, others, a))
	wantKind(t, s.UpdatePlan(ctx, others, store.Plan{ID: a.ID, Account: "alice", Repository: "r", Owner: others, CreatedAt: began, Doc: a.Doc,
		Events: []api.Event{{Stream: api.Stream{Kind: "plan", ID: string(b.ID)}, At: began, Type: "plan.state"}}}), api.KindInvalid)
	events, err := s.ReadEvents(ctx, stream, 1, 9)
	if diff := cmp.Diff(a.Events, events); err != nil || diff != "" || a.Events[1].Seq != 3 {
		t.Error(err, diff)
	}
	a.Events = nil
	a.Done, a.EndedAt = true, began.Add(time.Hour)
	must(t, s.UpdatePlan(ctx, others, a))
	a.Done, a.EndedAt = false, time.Time{}
	must(t, s.UpdatePlan(ctx, others, a))
	a.Done, a.EndedAt = true, began.Add(time.Hour)
	must(t, s.UpdatePlan(ctx, others, a))
	if n, err := s.PrunePlans(ctx, began); err != nil || n != 0 {
		t.Errorf("%d removed, %v", n, err)
	}
	if n, err := s.PrunePlans(ctx, began.Add(2*time.Hour)); err != nil || n != 1 {
		t.Errorf("%d removed, %v", n, err)
	}
	_, err = s.Plan(ctx, a.ID)
	wantKind(t, err, api.KindNotFound)
	items()
	if events, err := s.ReadEvents(ctx, stream, 0, 9); err != nil || len(events) != 0 {
		t.Errorf("%d events, %v", len(events), err)
	}
}
