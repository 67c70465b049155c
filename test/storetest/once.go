package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

func testOnce(t *testing.T, s store.Store) {
	ctx := t.Context()
	o := store.Once{Account: "a", Key: "k", Request: []byte{0, 1}, CreatedAt: began, ExpiresAt: began.Add(time.Hour)}
	begin := func(o store.Once, most int) (store.Once, bool) {
		t.Helper()
		have, begun, err := s.BeginOnce(ctx, o, most)
		must(t, err)
		return have, begun
	}
	if _, begun := begin(o, 9); !begun {
		t.Fatal("a new key is taken")
	}
	have, begun := begin(o, 9)
	if diff := cmp.Diff(o, have); begun || diff != "" {
		t.Error("begun twice:", begun, diff)
	}
	other := o
	other.Account = "" // the operator's
	if _, begun := begin(other, 9); !begun {
		t.Error("the key of another account is taken")
	}
	// Ended, it stays what it is.
	o.Done, o.Answer = true, []byte("x\x00")
	must(t, s.EndOnce(ctx, o))
	wantKind(t, s.EndOnce(ctx, o), api.KindNotFound)
	must(t, s.ForgetOnce(ctx, o.Account, o.Key))
	have, begun = begin(o, 9)
	if diff := cmp.Diff(o, have); begun || diff != "" {
		t.Error("ended:", begun, diff)
	}
	// Forgotten, it is free.
	must(t, s.ForgetOnce(ctx, other.Account, other.Key))
	must(t, s.ForgetOnce(ctx, other.Account, other.Key))
	if _, begun := begin(other, 9); !begun {
		t.Error("a forgotten key is taken")
	}
	// Expired, it is free too, and only then.
	late := o
	late.CreatedAt, late.ExpiresAt, late.Done, late.Answer = o.ExpiresAt.Add(-time.Microsecond), o.ExpiresAt.Add(time.Hour), false, nil
	if _, begun := begin(late, 9); begun {
		t.Error("it expired too early")
	}
	late.CreatedAt = o.ExpiresAt
	if _, begun := begin(late, 9); !begun {
		t.Error("it never expires")
	}
	for _, bad := range []store.Once{{}, {Key: "k"}, {Key: "k", Request: []byte{1}, CreatedAt: began, ExpiresAt: began}} {
		_, _, err := s.BeginOnce(ctx, bad, 9)
		wantKind(t, err, api.KindInvalid)
	}
}

// testOnceBounded fills an account beyond its bound: the oldest answers go, another
// account's stay, and so does what is being worked on.
func testOnceBounded(t *testing.T, s store.Store) {
	const most = 3
	row := func(account string, n int) store.Once {
		return store.Once{Account: account, Key: fmt.Sprint(n), Request: []byte{1}, CreatedAt: began, ExpiresAt: began.Add(time.Hour)}
	}
	add := func(o store.Once, end bool) {
		_, _, err := s.BeginOnce(t.Context(), o, most)
		must(t, err)
		if end {
			o.Done = true
			must(t, s.EndOnce(t.Context(), o))
		}
	}
	add(row("b", 0), true)
	add(row("a", 0), false)
	for n := 1; n <= 5; n++ {
		add(row("a", n), true)
	}
	for key, there := range map[string]bool{"b0": true, "a0": true, "a1": false, "a2": false, "a3": true, "a4": true, "a5": true} {
		// Expiring at once, the question leaves nothing behind that counts.
		o := row(key[:1], int(key[1]-'0'))
		_, begun, err := s.BeginOnce(t.Context(), o, 100)
		must(t, err)
		if begun == there {
			t.Errorf("%s is there: %v", key, !begun)
		}
	}
}

// testOnceConcurrent has many begin the same key: one does.
func testOnceConcurrent(t *testing.T, s store.Store) {
	o := store.Once{Key: "k", Request: []byte{1}, CreatedAt: began, ExpiresAt: began.Add(time.Hour)}
	var mu sync.Mutex
	var wg sync.WaitGroup
	n := 0
	for range 8 {
		wg.Go(func() {
			_, begun, err := s.BeginOnce(t.Context(), o, 9)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if begun {
				n++
			}
		})
	}
	wg.Wait()
	if n != 1 {
		t.Errorf("%d began", n)
	}
}
