package service

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	wait "hortus.dev/test/patience"
)

func TestNotify(t *testing.T) {
	name := filepath.Join(t.TempDir(), "n")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	env := ""
	getenv := func(key string) string {
		if key == "NOTIFY_SOCKET" {
			return env
		}
		return ""
	}
	for _, env = range []string{"", "relative", "/no/such/socket", name} {
		send(getenv, slog.New(slog.DiscardHandler), "READY=1")
	}
	if err := ln.SetReadDeadline(time.Now().Add(wait.Of(60 * time.Second))); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	n, err := ln.Read(b)
	if err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("%q, %v", b[:n], err)
	}
}
