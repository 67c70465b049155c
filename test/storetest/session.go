package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func newSession(owner api.OwnerID, account, key string) store.Session {
	return store.Session{ID: api.NewSessionID(), Account: account, Key: key, Owner: owner, CreatedAt: began, Doc: []byte(`{"a":1}`)}
}

func testSessions(t *testing.T, s store.Store) {
	ctx := t.Context()
	a, b := newOwner(t, s), newOwner(t, s)
	one := newSession(a, "alice", "k")
	turn := store.SessionTurn{N: 1, Doc: []byte(`{"n":1}`)}
	must(t, s.InsertSession(ctx, one, 2, turn))
	have, err := s.Session(ctx, one.ID)
	if diff := cmp.Diff(one, have); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	if have, err = s.SessionByKey(ctx, "alice", "k"); err != nil || have.ID != one.ID {
		t.Error(have.ID, err)
	}
	_, err = s.SessionByKey(ctx, "bob", "k")
	wantKind(t, err, api.KindNotFound)
	_, err = s.Session(ctx, api.NewSessionID())
	wantKind(t, err, api.KindNotFound)

	// A key is one session's; another account may have it too, and the number is bounded for each.
	wantKind(t, s.InsertSession(ctx, newSession(a, "alice", "k"), 2), api.KindExists)
	must(t, s.InsertSession(ctx, newSession(a, "bob", "k"), 2))
	must(t, s.InsertSession(ctx, newSession(a, "alice", "l"), 2))
	wantKind(t, s.InsertSession(ctx, newSession(a, "alice", "m"), 2), api.KindExhausted)
	for name, bad := range map[string]func(*store.Session){
		"id": func(v *store.Session) { v.ID = "" }, "key": func(v *store.Session) { v.Key = "" }, "doc": func(v *store.Session) { v.Doc = nil },
		"owner": func(v *store.Session) { v.Owner = "" }, "closed": func(v *store.Session) { v.Closed = true },
	} {
		v := newSession(a, "carol", name)
		bad(&v)
		wantKind(t, s.InsertSession(ctx, v, 9), api.KindInvalid)
	}
	wantKind(t, s.InsertSession(ctx, newSession("o1", "carol", "k"), 9), api.KindNotFound)

	// Only its owner changes it, with its turns, and what is refused changes nothing.
	one.Doc = []byte(`{"a":2}`)
	wantKind(t, s.UpdateSession(ctx, b, one, store.SessionTurn{N: 2, Doc: []byte("x")}), api.KindConflict)
	turn.Doc = []byte(`{"n":"again"}`)
	must(t, s.UpdateSession(ctx, a, one, turn, store.SessionTurn{N: 2, Doc: []byte(`{"n":2}`)}))
	turns, err := s.SessionTurns(ctx, one.ID)
	if err != nil || len(turns) != 2 || string(turns[0].Doc) != `{"n":"again"}` || turns[1].N != 2 {
		t.Errorf("%v, %v", turns, err)
	}
	one.Owner = b
	must(t, s.UpdateSession(ctx, a, one))
	wantKind(t, s.UpdateSession(ctx, a, one), api.KindConflict)
	wantKind(t, s.UpdateSession(ctx, a, newSession(a, "alice", "n")), api.KindNotFound)

	keys := func(all bool, limit int) (out []string) {
		t.Helper()
		list, err := s.SessionsOf(ctx, "alice", all, limit)
		must(t, err)
		for _, v := range list {
			out = append(out, fmt.Sprint(v.Key, v.Closed))
		}
		return out
	}
	if diff := cmp.Diff([]string{"lfalse", "kfalse"}, keys(false, 9)); diff != "" {
		t.Error(diff)
	}
	// Closed is final, and its key is free.
	one.Closed, one.EndedAt = true, began.Add(time.Hour)
	must(t, s.UpdateSession(ctx, b, one))
	wantKind(t, s.UpdateSession(ctx, b, one), api.KindConflict)
	again := newSession(a, "alice", "k")
	must(t, s.InsertSession(ctx, again, 2))
	if diff := cmp.Diff([]string{"kfalse", "lfalse"}, keys(false, 9)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"kfalse", "lfalse", "ktrue"}, keys(true, 9)); diff != "" {
		t.Error(diff)
	}
	if got := keys(true, 1); len(got) != 1 {
		t.Error(got)
	}
	open, err := s.OpenSessions(ctx)
	if err != nil || len(open) != 3 {
		t.Errorf("%d open, %v", len(open), err)
	}

	// What was closed long ago is removed, with its turns and events; nothing else is.
	for _, id := range []api.SessionID{one.ID, again.ID} {
		if _, err := s.AppendEvent(ctx, api.Stream{Kind: "session", ID: string(id)}, "session.created", began, nil); err != nil {
			t.Fatal(err)
		}
	}
	for before, want := range map[time.Time]int{began: 0, began.Add(2 * time.Hour): 1} {
		if n, err := s.PruneSessions(ctx, before); err != nil || n != want {
			t.Errorf("before %s: %d removed, %v", before, n, err)
		}
	}
	_, err = s.Session(ctx, one.ID)
	wantKind(t, err, api.KindNotFound)
	if turns, err := s.SessionTurns(ctx, one.ID); err != nil || len(turns) != 0 {
		t.Errorf("%v, %v", turns, err)
	}
	for id, want := range map[api.SessionID]int{one.ID: 0, again.ID: 1} {
		if all, err := s.ReadEvents(ctx, api.Stream{Kind: "session", ID: string(id)}, 0, 9); err != nil || len(all) != want {
			t.Errorf("%d events, %v", len(all), err)
		}
	}
}
