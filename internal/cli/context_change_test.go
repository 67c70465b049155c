package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hortus.dev/api"
)

// TestContextsTogether adds and removes contexts from many commands at once: none loses
// what another did.
func TestContextsTogether(t *testing.T) {
	p := newHolder(t, `{"contexts":{}}`)
	const n = 24
	for i := range n / 2 {
		if code, _, stderr := p.run("context", "add", fmt.Sprint("old", i), "--host", "http://h"); code != 0 {
			t.Fatal(stderr)
		}
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			args := []string{"context", "add", fmt.Sprint("new", i), "--host", "http://h"}
			if i%2 == 0 {
				args = []string{"context", "rm", fmt.Sprint("old", i/2)}
			}
			if code, _, stderr := p.run(args...); code != 0 {
				t.Errorf("%q: exit code %d: %s", args, code, stderr)
			}
		})
	}
	all.Wait()
	got, err := loadContexts(p.file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, ok := got.Contexts[fmt.Sprint("new", i)]; ok != (i%2 == 1) {
			t.Errorf("new%d is there: %v", i, ok)
		}
	}
	if len(got.Contexts) != n/2 {
		t.Errorf("%d contexts; want %d", len(got.Contexts), n/2)
	}
}

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
