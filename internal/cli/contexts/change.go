package contexts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/api"
)

const (
	// contextsLock is the name of the file, beside that of the contexts, which anyone who
	// changes them holds locked. It is empty and stays.
	contextsLock = ".contexts.lock"
	// lockWait bounds the wait for somebody else's change, which takes milliseconds.
	lockWait = 10 * time.Second
)

// errLocked reports that another process holds a lock.
var errLocked = errors.New("locked by another process")

// Change reads the file, has it changed and writes it. Two commands at once do
// so one after the other: neither loses what the other did. After an error of change
// nothing is written.
func Change(ctx context.Context, path string, change func(*File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(path), contextsLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return api.Errorf(api.KindInvalid, "contexts: %w", err)
	}
	defer lock.Close() // which ends the lock
	if err := awaitLock(ctx, lock); err != nil {
		return err
	}
	all, err := Load(path)
	if err != nil {
		return err
	}
	if err := change(&all); err != nil {
		return err
	}
	return all.save(path)
}

// awaitLock locks a file, once nobody else has it locked.
func awaitLock(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errLocked)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := lockFile(f)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errLocked) {
			return api.Errorf(api.KindInvalid, "lock %s: %w", f.Name(), err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != errLocked {
				return api.Errorf(api.KindOf(ctx.Err()), "lock %s: %w", f.Name(), cause)
			}
			return api.Errorf(api.KindTimeout, "another hortus process is changing the contexts for %s: %s is locked", lockWait, f.Name()).
				WithHint("retry when it has ended")
		}
	}
}
