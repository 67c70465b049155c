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

// TestPoll: a follower finds what another process appended, whose log wakes nobody here.
func TestPoll(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	here, there := NewLog(Config{Store: db, Poll: time.Millisecond}), NewLog(Config{Store: db})
	stream := api.Stream{Kind: api.StreamTask, ID: "t1"}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
	defer cancel()
	appended := int64(0)
	add := func(l *Log) {
		if _, err := l.Append(ctx, stream, "x", nil); err != nil {
			t.Error(err)
		}
		appended++
	}
	add(here) // the follower knows the last number of its own log
	for e, err := range here.Follow(ctx, stream, 0) {
		if err != nil || e.Seq != appended {
			t.Fatalf("%+v, %v", e, err)
		}
		if appended == 5 {
			break
		}
		add([]*Log{there, here}[appended%2])
	}
	if ctx.Err() != nil {
		t.Errorf("the follower found %d events", appended)
	}
	// It ends with its log.
	here.Close()
	for range here.Follow(ctx, stream, appended) {
		t.Error("there are more events")
	}
}
