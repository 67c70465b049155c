package perkey

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// TestLocks: one key is held by one at a time, and does not hold up another.
func TestLocks(t *testing.T) {
	var l Locks
	unlock, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Lock(t.Context(), "b") // the control: it does not wait
	if err != nil {
		t.Fatal(err)
	}
	other()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := l.Lock(ctx, "a"); !errors.Is(err, why) {
		t.Errorf("a key that is held: %v", err)
	}
	unlock()
	if unlock, err = l.Lock(ctx, "a"); err != nil {
		t.Errorf("a key that is free: %v", err)
	}
	unlock()
	if len(l.held) != 0 {
		t.Errorf("%d keys are left", len(l.held))
	}
}

// TestManyWait: each of those who wait gets its turn, alone.
func TestManyWait(t *testing.T) {
	var l Locks
	var wg sync.WaitGroup
	inside, turns := 0, 0
	for range 50 {
		wg.Go(func() {
			unlock, err := l.Lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if inside++; inside != 1 {
				t.Errorf("%d have the lock", inside)
			}
			turns++
			inside--
		})
	}
	wg.Wait()
	if turns != 50 {
		t.Errorf("%d turns", turns)
	}
}
