package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func testVolumes(t *testing.T, s store.Store) {
	ctx := t.Context()
	made := func(account, name string) api.Volume {
		return api.Volume{ID: api.NewVolumeID(), Account: account, Name: name, CreatedAt: began}
	}
	one, two, other := made("alice", "one"), made("alice", "two"), made("", "one")
	two.Node = api.NewNodeID()
	for _, v := range []api.Volume{one, two, other} {
		must(t, s.InsertVolume(ctx, v, 2))
	}
	// A name is unique within an account, an id everywhere, and an account has a number of them.
	wantKind(t, s.InsertVolume(ctx, made("alice", "one"), 9), api.KindExists)
	again := made("bob", "one")
	again.ID = one.ID
	wantKind(t, s.InsertVolume(ctx, again, 9), api.KindExists)
	wantKind(t, s.InsertVolume(ctx, made("alice", "three"), 2), api.KindExhausted)
	for _, bad := range []func(*api.Volume){
		func(v *api.Volume) { v.ID = "" }, func(v *api.Volume) { v.Name = "" }, func(v *api.Volume) { v.CreatedAt = time.Time{} },
	} {
		v := made("bob", "bad")
		bad(&v)
		wantKind(t, s.InsertVolume(ctx, v, 9), api.KindInvalid)
	}

	have, err := s.Volume(ctx, one.ID)
	if diff := cmp.Diff(one, have); err != nil || diff != "" {
		t.Error(err, diff)
	}
	_, err = s.Volume(ctx, api.NewVolumeID())
	wantKind(t, err, api.KindNotFound)
	for account, want := range map[string][]api.Volume{"alice": {two, one}, "": {other}, "bob": nil} {
		list, err := s.VolumesOf(ctx, account)
		if diff := cmp.Diff(want, list); err != nil || diff != "" {
			t.Error(account, err, diff)
		}
	}
	one.Node = api.NewNodeID()
	must(t, s.SetVolumeNode(ctx, one.ID, one.Node))
	if have, err := s.Volume(ctx, one.ID); err != nil || have.Node != one.Node {
		t.Errorf("%+v, %v", have, err)
	}
	must(t, s.RemoveVolume(ctx, one.ID))
	wantKind(t, s.RemoveVolume(ctx, one.ID), api.KindNotFound)
	must(t, s.InsertVolume(ctx, made("alice", "one"), 2)) // the name is free again
	all, err := s.ListVolumes(ctx)
	if err != nil || len(all) != 3 || all[0].Name != "one" || all[2].ID != two.ID {
		t.Error(all, err)
	}
}
