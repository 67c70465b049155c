package ownership

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

// beats plays the rows: each renewal asks for an answer.
type beats struct {
	owners
	answer chan error
}

func (b beats) BeatOwner(ctx context.Context, _ api.OwnerID, _ time.Time) error {
	select {
	case err := <-b.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestKeep: the lease is renewed through errors of the store, until another process has ended
// this owner.
func TestKeep(t *testing.T) {
	rows := beats{owners{}, make(chan error)}
	own, err := Register(t.Context(), rows, "", "/d/lock")
	if err != nil {
		t.Fatal(err)
	}
	ticks, lost, stopped := make(chan time.Time), make(chan error, 1), make(chan bool, 1)
	own.keep(slog.New(slog.DiscardHandler), func(err error) { lost <- err }, ticks, func() { stopped <- true })
	for _, answer := range []error{nil, api.Errorf(api.KindExhausted, "the disk is full"), nil, api.Errorf(api.KindConflict, "it has ended")} {
		select {
		case err := <-lost:
			t.Fatalf("the lease is lost after %v", err)
		case ticks <- time.Now():
		}
		rows.answer <- answer
	}
	if err := <-lost; api.KindOf(err) != api.KindConflict {
		t.Errorf("the lease is lost: %v", err)
	}
	<-stopped
	if err := own.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestKeepEnds: Close ends a renewal that hangs.
func TestKeepEnds(t *testing.T) {
	own, err := Register(t.Context(), beats{owners{}, make(chan error)}, "", "/d/lock")
	if err != nil {
		t.Fatal(err)
	}
	ticks := make(chan time.Time)
	own.keep(slog.New(slog.DiscardHandler), func(err error) { t.Errorf("the lease is lost: %v", err) }, ticks, func() {})
	ticks <- time.Now()
	if err := own.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSilent(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		owner store.Owner
		want  bool
	}{
		"started a moment ago": {store.Owner{StartedAt: now.Add(-Lease / 2)}, false},
		"never renewed":        {store.Owner{StartedAt: now.Add(-2 * Lease)}, true},
		"renewed":              {store.Owner{StartedAt: now.Add(-time.Hour), BeatAt: now.Add(-Lease / 2)}, false},
		"renewed long ago":     {store.Owner{StartedAt: now.Add(-time.Hour), BeatAt: now.Add(-2 * Lease)}, true},
	} {
		if got := silent(c.owner, now); got != c.want {
			t.Errorf("%s: silent %v, want %v", name, got, c.want)
		}
	}
}
