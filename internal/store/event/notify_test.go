package event

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/patience"
)

// TestNotify: who follows a stream in one process sees what another process appends, when
// the notifier tells of it, and not before.
func TestNotify(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	told := make(chan int64, 10)
	here := NewLog(Config{Store: db, Notify: func(_ api.Stream, seq int64) { told <- seq }})
	there := NewLog(Config{Store: db})
	stream := api.Stream{Kind: api.StreamTask, ID: "t1"}
	if _, err := here.Append(t.Context(), stream, "first", nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
	defer cancel()
	seen := make(chan api.Event)
	go func() {
		defer close(seen)
		for e, err := range there.Follow(ctx, stream, 0) {
			if err != nil {
				t.Error(err)
				return
			}
			seen <- e
		}
	}()
	if e := <-seen; e.Type != "first" || <-told != 1 {
		t.Fatalf("%+v", e)
	}
	there.Wake(stream, 9) // a false alarm
	if _, err := here.Append(ctx, stream, "second", nil); err != nil {
		t.Fatal(err)
	}
	there.Wake(stream, <-told)
	if e := <-seen; e.Type != "second" || e.Seq != 2 {
		t.Errorf("%+v", e)
	}
	there.Wake(api.Stream{Kind: api.StreamTask, ID: "t2"}, 1) // nobody follows it
	cancel()
	if e, more := <-seen; more {
		t.Errorf("one more: %+v", e)
	}
}
