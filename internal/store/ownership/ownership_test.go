package ownership

import (
	"context"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// owners plays the rows.
type owners map[api.OwnerID]store.Owner

func (o owners) InsertOwner(_ context.Context, row store.Owner) error    { o[row.ID] = row; return nil }
func (o owners) BeatOwner(context.Context, api.OwnerID, time.Time) error { return nil }
func (o owners) Now() time.Time                                          { return time.Now() }
func (o owners) EndOwner(_ context.Context, id api.OwnerID, _ time.Time) error {
	delete(o, id)
	return nil
}
func (o owners) Owners(context.Context) (list []store.Owner, err error) {
	for _, row := range o {
		list = append(list, row)
	}
	return list, nil
}

func (o owners) OwnersElsewhere(_ context.Context, node api.NodeID, _ string) (list []api.OwnerID, err error) {
	for id, row := range o {
		if row.Node != node {
			list = append(list, id)
		}
	}
	return list, nil
}

// TestOtherNodes: whether an owner of another node has ended is not for this node's host to say, even if its lock is free.
func TestOtherNodes(t *testing.T) {
	rows := owners{}
	own, err := Register(t.Context(), rows, "n1", "/d/lock")
	if err != nil {
		t.Fatal(err)
	}
	same, other := api.NewOwnerID(), api.NewOwnerID()
	rows[same] = store.Owner{ID: same, Host: own.Owner.Host, LockPath: "/free", Node: "n1"}
	rows[other] = store.Owner{ID: other, Host: own.Owner.Host, LockPath: "/free", Node: "n2"}
	others, err := own.Others(t.Context(), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if !others.Ended(same) || others.Ended(other) || others.Ended(own.Owner.ID) {
		t.Errorf("ended: same %v, other %v", others.Ended(same), others.Ended(other))
	}
	if err := others.Forget(t.Context()); err != nil || len(rows) != 2 {
		t.Errorf("%d owners, %v", len(rows), err)
	}
}

// TestOthers: only an owner whose lock is provably free, or is this process's, has ended.
func TestOthers(t *testing.T) {
	rows := owners{}
	own, err := Register(t.Context(), rows, "", "/d/lock")
	if err != nil {
		t.Fatal(err)
	}
	host := own.Owner.Host
	same, free, held, elsewhere := api.NewOwnerID(), api.NewOwnerID(), api.NewOwnerID(), api.NewOwnerID()
	for id, o := range map[api.OwnerID]store.Owner{
		same: {Host: host, LockPath: "/d/lock"}, free: {Host: host, LockPath: "/free"},
		held: {Host: host, LockPath: "/held"}, elsewhere: {Host: host + ".other", LockPath: "/free"},
	} {
		o.ID = id
		rows[id] = o
	}
	others, err := own.Others(t.Context(), func(path string) bool { return path == "/free" })
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[api.OwnerID]bool{own.Owner.ID: false, same: true, free: true, held: false, elsewhere: false, api.NewOwnerID(): true} {
		if got := others.Ended(id); got != want {
			t.Errorf("%+v has ended: %v, want %v", rows[id], got, want)
		}
	}
	alive := map[api.OwnerID]bool{}
	for _, o := range append(others.Alive, others.Silent...) {
		alive[o.ID] = true
	}
	if len(alive) != 2 || !alive[held] || !alive[elsewhere] {
		t.Errorf("%v are alive or silent, want %s and %s", alive, held, elsewhere)
	}
	if err := others.Forget(t.Context()); err != nil || len(rows) != 3 {
		t.Errorf("%d owners are left, %v", len(rows), err)
	}
	if err := own.Close(t.Context()); err != nil || len(rows) != 2 {
		t.Errorf("%d owners are left, %v", len(rows), err)
	}
}
