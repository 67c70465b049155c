package fleet

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
)

// join adds a node to a database.
func join(t *testing.T, db *database.DB, name string) *Fleet {
	t.Helper()
	node, run := api.NewNodeID(), api.NewOwnerID()
	if err := db.InsertOwner(t.Context(), store.Owner{ID: run, Host: "h", LockPath: "/" + name, StartedAt: time.Now(), Node: node}); err != nil {
		t.Fatal(err)
	}
	f, err := Join(t.Context(), Config{
		Node: node, Owner: run, Name: name, Rows: db, Logger: slog.New(slog.DiscardHandler),
		Capacity: func(context.Context) api.NodeCapacity { return api.NodeCapacity{} },
		Lost:     func(err error) { t.Errorf("%s is no node any more: %v", name, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestLease: one node leads, and a node that could not renew its lease neither leads nor serves, by its own clock.
func TestLease(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	one, two := join(t, db, "one"), join(t, db, "two")
	if !one.Leads() || two.Leads() {
		t.Errorf("leads: %t, %t", one.Leads(), two.Leads())
	}
	if err := one.Holds(); err != nil {
		t.Error(err)
	}
	if _, err := one.all(t.Context(), true); err != nil || !one.Others() {
		t.Errorf("others: %t, %v", one.Others(), err)
	}
	late := &Fleet{cfg: one.cfg, begun: time.Now().Add(-Lease)} // it has renewed nothing since
	late.leads.Store(int64(Lease))
	err = late.Holds()
	if api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "node one has not reached the database for 10s") || late.Leads() {
		t.Errorf("%v, leads: %t", err, late.Leads())
	}
}
