package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

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
	if got := strings.Join(names, ", "); got != "listeners, streams, tasks, sandboxes, events, connections" {
		t.Error(got)
	}
}

// none is an empty manager and engine.
type none struct {
	Sandboxes
	Warmer
}

func (none) KeepWarm(context.Context, api.CreateSandbox) error { return errors.New("none") }
func (none) Running() int                                      { return 0 }
func (none) Close(context.Context) error                       { return nil }
