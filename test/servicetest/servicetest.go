package servicetest

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	wait "hortus.dev/test/patience"
)

// Manager plays a service manager: it listens on a socket.
type Manager struct {
	name string
	said chan string
}

// Getenv is the environment that the manager gives to the daemon.
func (m Manager) Getenv(key string) string {
	if key == "NOTIFY_SOCKET" {
		return m.name
	}
	return ""
}

// Listen starts a manager, which stops with the test.
func Listen(t *testing.T) Manager {
	t.Helper()
	m := Manager{filepath.Join(t.TempDir(), "notify"), make(chan string, 64)}
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := ln.Read(b)
			if err != nil {
				return
			}
			m.said <- string(b[:n])
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return m
}

// Hears waits for the next notification, which must contain wants.
func (m Manager) Hears(t *testing.T, wants ...string) {
	t.Helper()
	select {
	case got := <-m.said:
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("the service manager is notified of %q, without %q", got, want)
			}
		}
	case <-time.After(wait.Of(60 * time.Second)):
		t.Fatalf("the service manager is notified of nothing; want %q", wants)
	}
}

// HearsNothing fails if there is a notification.
func (m Manager) HearsNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-m.said:
		t.Errorf("the service manager is notified of %q", got)
	default:
	}
}
