package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/daemon"
	"hortus.dev/test/world"
)

// TestLostLease: a daemon that another process has ended stops by itself.
func TestLostLease(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer // written by the daemon alone, and read after its end
	w := world.Open(t, world.Config{Config: daemon.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	info := world.Must(w.Client.Info(t.Context()))(t)
	world.OK(t, w.DB.EndOwner(t.Context(), info.Owner, time.Now()))
	w.Ended()
	w.Stop()
	if !strings.Contains(log.String(), "no longer owns its data directory") {
		t.Errorf("the log does not say why:\n%s", log.String())
	}
}
