package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hortus.dev/api"
)

// TestForkStopped: a workspace that a sandbox has is copied as it is; the copy is its own, and one that nobody has is refused, as is one
// with too much.
func TestForkStopped(t *testing.T) {
	f, id, upper, want := edited(t)
	session := api.NewSessionID()
	_, err := Forks{f.Store}.ForkStopped(t.Context(), id, New{Session: session}, Copyable())
	wantKind(t, err, api.KindConflict)
	l, err := f.Lease(t.Context(), id)
	must(t, err)
	_, err = f.Fork(t.Context(), id, New{})
	wantKind(t, err, api.KindConflict) // the control
	w, err := Forks{f.Store}.ForkStopped(t.Context(), id, New{Session: session}, Copyable())
	must(t, err)
	if w.Session != session || w.Parent != id {
		t.Errorf("%+v", w)
	}
	equal(t, "the copy", f.shows(t, w.ID), want)
	put(t, upper, map[string]string{"later": "x"})
	equal(t, "the copy, later", f.shows(t, w.ID), want)

	for i := range Copyable().Files + 1 {
		must(t, os.WriteFile(filepath.Join(upper, fmt.Sprint("many", i)), nil, 0o600))
	}
	_, err = Forks{f.Store}.ForkStopped(t.Context(), id, New{}, Copyable())
	wantKind(t, err, api.KindExhausted)
	l.Release()
	_, err = Forks{f.Store}.ForkStopped(t.Context(), id, New{}, Copyable())
	wantKind(t, err, api.KindConflict)
	w, err = f.Fork(t.Context(), id, New{})
	must(t, err)
	if _, ok := f.shows(t, w.ID)["many0"]; !ok {
		t.Error("the fork of a free workspace lacks files")
	}
}

// TestForkStoppedRace: a lease ends while copies are made. Each is whole or refused.
func TestForkStoppedRace(t *testing.T) {
	f, id, _, want := edited(t)
	for range 20 {
		l, err := f.Lease(t.Context(), id)
		must(t, err)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				w, err := Forks{f.Store}.ForkStopped(t.Context(), id, New{}, Copyable())
				if err == nil {
					equal(t, "a copy", f.shows(t, w.ID), want)
				} else if api.KindOf(err) != api.KindConflict {
					t.Error(err)
				}
			})
		}
		l.Release()
		wg.Wait()
	}
}
