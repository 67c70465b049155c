package upkeep

import (
	"context"
	"errors"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/patience"
)

// TestPruner has a real store pruned until it is within bounds, and continues after an
// error.
func TestPruner(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: t.TempDir() + "/hortus.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	add := func(account string, ended time.Duration) api.SandboxID {
		b := api.Sandbox{ID: api.NewSandboxID(), Account: account, State: api.SandboxEnded, CreatedAt: now.Add(-1000 * time.Hour), EndedAt: now.Add(-ended)}
		if err := db.InsertSandbox(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return b.ID
	}
	for range 30 {
		add("flood", time.Minute)
	}
	recent, old := add("other", time.Hour), add("other", 800*time.Hour)
	failed := false
	rounds := make(chan store.Pruned)
	k := NewPruner(PrunerConfig{
		Bounds: Bounds{Rows: 7}, Every: 20 * time.Millisecond, Now: func() time.Time { return now },
		Prune: func(ctx context.Context, keep store.Retention) (store.Pruned, error) {
			if !failed {
				failed = true
				return store.Pruned{}, errors.New("the disk is full")
			}
			done, err := db.Prune(ctx, keep)
			select {
			case rounds <- done:
			case <-ctx.Done():
			}
			return done, err
		},
	})
	select {
	case done := <-rounds:
		if done.Sandboxes != 24 {
			t.Errorf("removed %+v", done)
		}
	case <-time.After(patience.Of(30 * time.Second)):
		t.Fatal("nothing was pruned")
	}
	if err := k.Close(t.Context()); err != nil {
		t.Error(err)
	}
	left, err := db.ListSandboxes(t.Context(), true)
	if err != nil || len(left) != 8 {
		t.Errorf("%d left, %v", len(left), err)
	}
	if _, err := db.Sandbox(t.Context(), recent); err != nil {
		t.Errorf("a recent one of another account: %v", err)
	}
	if _, err := db.Sandbox(t.Context(), old); api.KindOf(err) != api.KindNotFound {
		t.Errorf("an old one: %v", err)
	}
}

func TestPrunerBounds(t *testing.T) {
	k := NewPruner(PrunerConfig{Prune: func(context.Context, store.Retention) (store.Pruned, error) { return store.Pruned{}, nil }})
	defer k.Close(t.Context())
	if want := (Bounds{DefaultRows, DefaultExecs, DefaultDecisions, DefaultBytes, DefaultAge}); k.cfg.Bounds != want {
		t.Errorf("by default %+v", k.cfg.Bounds)
	}
}
