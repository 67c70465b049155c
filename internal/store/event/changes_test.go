package event

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/database"
	"hortus.dev/test/patience"
)

// TestChanges appends before, while and after somebody watches.
func TestChanges(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := NewLog(Config{Store: db})
	task := func(n int) api.Stream { return api.Stream{Kind: api.StreamTask, ID: "t" + strconv.Itoa(n)} }
	add := func(s api.Stream) {
		t.Helper()
		if _, err := l.Append(t.Context(), s, "x", nil); err != nil {
			t.Fatal(err)
		}
	}
	add(task(0))
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
	defer cancel()
	changes := l.Changes(ctx)
	// What changes before the loop is not lost, and a stream that changes twice is there once.
	add(task(2))
	add(task(1))
	add(task(1))
	commands := api.Stream{Kind: api.StreamCommands, ID: "s"}
	for range 2 {
		l.Changed(commands)
	}
	if stored, err := db.ReadEvents(ctx, commands, 0, 10); err != nil || len(stored) != 0 {
		t.Errorf("Changed stores %v, %v", stored, err)
	}
	batches := make(chan []api.Stream)
	go func() {
		defer close(batches)
		for batch := range changes {
			batches <- batch
		}
	}()
	if got := <-batches; len(got) != 3 || got[0] != commands || got[1] != task(1) || got[2] != task(2) {
		t.Errorf("%v", got)
	}
	// The reader is busy with the next batch, whenever it took that. More than it may remember meanwhile is anything.
	add(task(3))
	for n := range 3 * maxChanged {
		l.Wake(task(n), 1)
	}
	many := false
	for !many {
		select {
		case batch := <-batches:
			many = batch == nil
		case <-ctx.Done():
			t.Fatal("no batch stands for any stream")
		}
	}
	add(task(4))
	for batch := range batches {
		if slices.Contains(batch, task(4)) {
			break
		}
	}
	l.Close()
	for range batches { // it ends with the log
	}
	if ctx.Err() != nil {
		t.Error("Close does not end it")
	}
	l.Changed(commands)
	for range l.Changes(ctx) {
		t.Error("a closed log changes")
	}
	if len(l.watches) != 0 {
		t.Errorf("%d watches are left", len(l.watches))
	}
}

// TestChangesWithoutAny: a stream that is noted between a signal and the look that follows it is in one batch, and no batch stands for more.
func TestChangesWithoutAny(t *testing.T) {
	w := &watch{streams: map[api.Stream]struct{}{}, ready: make(chan struct{}, 1)}
	l := &Log{watches: map[*watch]struct{}{w: {}}}
	one, two := api.Stream{Kind: api.StreamTask, ID: "t1"}, api.Stream{Kind: api.StreamTask, ID: "t2"}
	l.Changed(one)
	<-w.ready
	l.Changed(two) // before the look
	if batch, some := l.take(w); !some || !slices.Equal(batch, []api.Stream{one, two}) {
		t.Errorf("%v, %t", batch, some)
	}
	<-w.ready
	if batch, some := l.take(w); some {
		t.Errorf("nothing was noted, and any stream may have changed: %v", batch)
	}
}

// TestChangesOfOthers: as long as other processes append, any stream may have changed.
func TestChangesOfOthers(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	asked := 0
	l := NewLog(Config{Store: db, Poll: time.Millisecond, Others: func() bool { asked++; return asked > 3 }})
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
	defer cancel()
	for batch := range l.Changes(ctx) {
		if batch != nil || asked != 4 {
			t.Errorf("%v after %d questions", batch, asked)
		}
		return
	}
	t.Error("no batch stands for the streams of others")
}
