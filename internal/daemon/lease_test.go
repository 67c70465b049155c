package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestLostLease: a daemon that another process has ended stops by itself.
func TestLostLease(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer // written by the daemon alone, and read after its end
	s, err := Open(t.Context(), Config{DataDir: shortDir(t), Idle: -1, Pool: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.EndOwner(t.Context(), s.owner.Owner.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	err = s.Serve(t.Context(), func() {})
	if cerr := s.Close(context.Background()); err != nil || cerr != nil {
		t.Errorf("serve: %v; close: %v", err, cerr)
	}
	if !strings.Contains(log.String(), "no longer owns its data directory") {
		t.Errorf("the log does not say why:\n%s", log.String())
	}
}
