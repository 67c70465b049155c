package cache

import (
	"fmt"
	"log/slog"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
)

// TestListedOnce: git lists a commit once, and nothing else changes: not the limits, not who may read it, not what a
// caller does with the files.
func TestListedOnce(t *testing.T) {
	ctx, calls := gittest.Context(t), &gitCalls{}
	c := newCache(t, func(c *Config) { c.Logger = slog.New(calls) })
	r := fetch(t, c, gittest.NewCheckout(t, map[string]string{"a": "1\n", "b": "2\n"}))
	other := fetch(t, c, gittest.NewCheckout(t, map[string]string{"x": "1\n"}))
	at := head(t, r).Hash
	before := calls.n.Load()
	for range 3 {
		files, err := r.Files(ctx, at)
		if err != nil || len(files) != 2 || files[0].Path != "a" {
			t.Fatalf("%+v %v", files, err)
		}
		files[0].Path = "changed by its caller"
	}
	if n := calls.n.Load() - before; n != 1 {
		t.Errorf("git ran %d times, want once", n)
	}
	if _, err := r.files(ctx, at, 1, 1<<20); api.KindOf(err) != api.KindExhausted {
		t.Errorf("more files than the limit: %v", err)
	}
	if _, err := r.files(ctx, at, 10, 3); api.KindOf(err) != api.KindExhausted {
		t.Errorf("more bytes than the limit: %v", err)
	}
	if files, err := other.Files(ctx, at); err == nil {
		t.Errorf("another repository has the commit: %+v", files)
	}
	if err := c.Remove(ctx, r.Name()); err != nil {
		t.Fatal(err)
	}
	if files, err := r.Files(ctx, at); err == nil {
		t.Errorf("a repository that was removed: %+v", files)
	}
}

// TestListedIsBounded: few files are kept, those that were used last, and none of a commit that is too large.
func TestListedIsBounded(t *testing.T) {
	var l listed
	name := func(n int) listedName { return listedName{"r", fmt.Sprint(n)} }
	third := make([]Entry, maxKeptFiles/3)
	l.keep(name(0), make([]Entry, maxKeptFiles+1), 0)
	for n := 1; n <= 3; n++ {
		l.keep(name(n), third, 0)
		l.find(name(1)) // used last
	}
	for n, want := range map[int]bool{0: false, 1: true, 2: false, 3: true} {
		if _, _, ok := l.find(name(n)); ok != want {
			t.Errorf("commit %d is kept: %t, want %t", n, ok, want)
		}
	}
	l.forget("r")
	if l.files != 0 || l.last.Len() != 0 || len(l.byName) != 0 {
		t.Errorf("after all were forgotten: %d files", l.files)
	}
}
