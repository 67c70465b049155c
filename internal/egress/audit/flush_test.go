package audit

import (
	"context"
	"testing"
	"time"

	"hortus.dev/api"
)

func TestFlush(t *testing.T) {
	rows := &stored{}
	r := NewRecorder(Config{Store: rows, Delay: time.Hour})
	r.Record(api.EgressDecision{Sandbox: "one", Op: "connect", Host: "example.org", Result: api.EgressDenied})
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rows.n; n != 1 {
		t.Fatalf("%d decisions are stored after Flush; want 1", n)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Errorf("Flush after Close: %v", err)
	}
}

// stored counts what is stored. A flush orders its accesses.
type stored struct{ n int }

func (s *stored) InsertEgress(_ context.Context, all []api.EgressDecision) error {
	s.n += len(all)
	return nil
}
