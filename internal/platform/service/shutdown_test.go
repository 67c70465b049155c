package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestStages: the order in which a daemon ends is what its streams and events rely on.
func TestStages(t *testing.T) {
	s := New(Config{Sandboxes: none{}, Warmer: none{}, Tasks: none{}, Logger: slog.New(slog.DiscardHandler)})
	defer s.Close(t.Context())
	var names []string
	for _, st := range s.stages(nil, 0) {
		names = append(names, st.name)
	}
	if got := strings.Join(names, ", "); got != "listeners, move, streams, tasks, sandboxes, events, connections" {
		t.Error(got)
	}
}

// none is an empty manager and engine.
type none struct {
	Sandboxes
	Warmer
}

func (none) KeepWarm(context.Context, api.CreateSandbox) error { return errors.New("none") }
func (none) AwaitWarm(context.Context) error                   { return nil }
func (none) Warm() (ready, want int)                           { return 0, 0 }
func (none) Cold() error                                       { return nil }
func (none) Running() int                                      { return 0 }
func (none) Ending() int                                       { return 0 }
func (none) Alive() int                                        { return 0 }
func (none) Lone() int                                         { return 0 }
func (none) Close(context.Context) error                       { return nil }

// TestFollowedKeepsAlive: a daemon that looks at merge requests does not end when it is idle.
func TestFollowedKeepsAlive(t *testing.T) {
	looks := 0
	followed := func() int {
		looks++
		if looks < 5 {
			return 1
		}
		return 0
	}
	s := New(Config{
		Sandboxes: none{}, Warmer: none{}, Tasks: none{}, Followed: followed, StopAdmission: func() {}, StopEvents: func() {}, Streams: func() int { return 0 },
		Idle: 1, Logger: slog.New(slog.DiscardHandler),
	})
	defer s.Close(t.Context())
	if err := s.Serve(t.Context(), nil, func() {}); err != nil || looks < 5 {
		t.Errorf("it ended after %d looks, %v", looks, err)
	}
}

// TestMove: sandboxes are moved for the drain time, unless the next daemon has them.
func TestMove(t *testing.T) {
	for name, tt := range map[string]struct {
		drain   time.Duration
		keeping bool
		want    string
	}{
		"a time": {time.Hour, false, "until"}, "no limit": {-1, false, "moved"}, "no time": {0, false, ""}, "kept": {time.Hour, true, ""},
	} {
		did := ""
		s := New(Config{Sandboxes: none{}, Warmer: none{}, Tasks: none{}, Logger: slog.New(slog.DiscardHandler), Drain: tt.drain, Move: func(ctx context.Context) {
			did = "moved"
			if _, limited := ctx.Deadline(); limited {
				did = "until"
			}
		}})
		s.keeping.Store(tt.keeping)
		s.move(t.Context())
		if did != tt.want {
			t.Errorf("%s: %q, want %q", name, did, tt.want)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
