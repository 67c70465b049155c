package contexts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/api"
)

// TestAwaitLock waits for a lock that somebody holds, until it is given up or the
// waiting is.
func TestAwaitLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	holder, waiter := open(), open()
	if err := awaitLock(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	if err := lockFile(waiter); !errors.Is(err, errLocked) {
		t.Errorf("a lock that is held: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitLock(ctx, waiter); api.KindOf(err) != api.KindCanceled {
		t.Errorf("a canceled wait: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- awaitLock(t.Context(), waiter) }()
	holder.Close()
	if err := <-done; err != nil {
		t.Errorf("a lock that was given up: %v", err)
	}
}
