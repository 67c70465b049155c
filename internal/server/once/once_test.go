package once

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store/database"
)

func open(t *testing.T, path string, now func() time.Time) (*Keeper, *database.DB) {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return New(Config{Rows: db, Now: now}), db
}

// say makes an answer, and counts how often.
func say(n *atomic.Int32, answer string, keep bool) func() ([]byte, bool) {
	return func() ([]byte, bool) { n.Add(1); return []byte(answer), keep }
}

func TestOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return at }
	k, db := open(t, path, clock)
	ctx := t.Context()
	var n atomic.Int32
	want := func(what string, k *Keeper, account, key, request, do string, keep bool, answer string, replayed bool, calls int32, kind api.Kind) {
		t.Helper()
		got, again, err := k.Do(ctx, account, key, []byte(request), say(&n, do, keep))
		if string(got) != answer || again != replayed || api.KindOf(err) != kind || n.Load() != calls {
			t.Errorf("%s: %q, replayed %v, %v; %d calls", what, got, again, err, n.Load())
		}
		if kind != "" && api.HintOf(err) == "" {
			t.Errorf("%s: %v has no hint", what, err)
		}
	}
	want("the first", k, "a", "k", "r", "one", true, "one", false, 1, "")
	want("the same again", k, "a", "k", "r", "two", true, "one", true, 1, "")
	want("another request", k, "a", "k", "other", "two", true, "", false, 1, api.KindInvalid)
	want("another account", k, "", "k", "other", "three", true, "three", false, 2, "")
	want("an error", k, "a", "e", "r", "failed", false, "failed", false, 3, "")
	want("after an error", k, "a", "e", "r", "fine", true, "fine", false, 4, "")
	long := string(bytes.Repeat([]byte("x"), MaxAnswer+1))
	want("a long one", k, "a", "l", "r", long, true, long, false, 5, "")
	want("a long one again", k, "a", "l", "r", "no", true, "", false, 5, api.KindConflict)

	// A daemon that dies while it answers leaves a key whose outcome is not known.
	func() {
		defer func() { _ = recover() }()
		_, _, _ = k.Do(ctx, "a", "dies", []byte("r"), func() ([]byte, bool) { panic("killed") })
	}()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	k, _ = open(t, path, clock)
	want("after a restart", k, "a", "k", "r", "two", true, "one", true, 5, "")
	want("what died", k, "a", "dies", "r", "again", true, "", false, 5, api.KindConflict)
	want("what died, asked for otherwise", k, "a", "dies", "other", "again", true, "", false, 5, api.KindInvalid)
	at = at.Add(DefaultKeep)
	want("what died, a day later", k, "a", "dies", "r", "again", true, "again", false, 6, "")
	want("an answer of a day ago", k, "a", "k", "r", "anew", true, "anew", false, 7, "")
}

// TestInFlight asks with one key many times while the first is worked on.
func TestInFlight(t *testing.T) {
	k, _ := open(t, filepath.Join(t.TempDir(), "db"), nil)
	begun, release := make(chan struct{}), make(chan struct{})
	var n atomic.Int32
	ask := func() ([]byte, bool, error) {
		return k.Do(t.Context(), "a", "k", []byte("r"), func() ([]byte, bool) {
			n.Add(1)
			close(begun)
			<-release
			return []byte("one"), true
		})
	}
	var wg sync.WaitGroup
	var replayed atomic.Int32
	for range 8 {
		wg.Go(func() {
			got, again, err := ask()
			if string(got) != "one" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if again {
				replayed.Add(1)
			}
		})
	}
	<-begun
	// Another request does not wait, and neither does one whose caller has gone.
	if _, _, err := k.Do(t.Context(), "a", "k", []byte("other"), nil); api.KindOf(err) != api.KindInvalid {
		t.Errorf("another request: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := k.Do(gone, "a", "k", []byte("r"), nil); api.KindOf(err) != api.KindCanceled {
		t.Errorf("whose caller has gone: %v", err)
	}
	close(release)
	wg.Wait()
	if n.Load() != 1 || replayed.Load() != 7 {
		t.Errorf("made %d times, replayed %d times", n.Load(), replayed.Load())
	}
}
