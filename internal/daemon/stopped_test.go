package daemon

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"testing"
)

// A daemon that is stopped while it starts says that, and not what the stop interrupted.
func TestStoppedWhileStarting(t *testing.T) {
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("signal: terminated"))
	err := run(ctx, settings{Config: Config{DataDir: t.TempDir()}}, slog.New(slog.DiscardHandler), &slog.LevelVar{})
	if err == nil || err.Error() != "stopped while starting (signal: terminated)" {
		t.Error(err)
	}
}
