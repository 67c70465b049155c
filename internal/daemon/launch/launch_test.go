package launch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/daemon/datadir"
	httpapi "hortus.dev/internal/server/http"
)

// TestRefusingDaemon: what a daemon answers that serves nothing now is the error of Connect at once, and no daemon is started.
func TestRefusingDaemon(t *testing.T) {
	path, err := os.MkdirTemp("", "hl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(path)
	dir, err := datadir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := datadir.AcquireLock(dir.Lock())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	refusal := api.Errorf(api.KindUnavailable, "node c has not reached the database for 15s")
	refusal.RetryAfterMS = 3000
	ln, err := net.Listen("unix", dir.Socket())
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { httpapi.Refuse(w, refusal) })}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	defer func() { srv.Close(); <-served }()
	c, err := Connect(t.Context(), Options{DataDir: path})
	if c != nil || err == nil || err.Error() != refusal.Message || api.RetryAfterOf(err) != 3*time.Second {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := os.Stat(dir.Log()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a daemon was started, whose log there is: %v", err)
	}
}

// TestSilentDaemon: a daemon that has the data directory and does not answer is waited for, and no other one is started.
func TestSilentDaemon(t *testing.T) {
	dir, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := datadir.AcquireLock(dir.Lock())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, Options{DataDir: string(dir)}); api.KindOf(err) != api.KindTimeout {
		t.Error(err)
	}
	if _, err := os.Stat(dir.Log()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a daemon was started, whose log there is: %v", err)
	}
}

// TestRefuses: a daemon that stops, and one that cannot be reached, make room for the next one.
func TestRefuses(t *testing.T) {
	later := api.Errorf(api.KindUnavailable, "no database")
	later.RetryAfterMS = 1
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{context.DeadlineExceeded, false},
		{api.Errorf(api.KindUnavailable, "the daemon is stopping"), false},
		{later, true},
		{api.Errorf(api.KindInternal, "unexpected response from the daemon"), true},
	} {
		if got := refuses(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
