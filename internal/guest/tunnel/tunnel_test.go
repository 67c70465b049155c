package tunnel_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"hortus.dev/internal/guest/tunnel"
)

// ends are a tunnel of two ends in this process: what is written to one local stream is read from the other.
func ends(t *testing.T) (host, guest *net.UnixConn) {
	t.Helper()
	a, b := net.Pipe()
	for _, e := range []struct {
		conn net.Conn
		side tunnel.Side
		to   **net.UnixConn
	}{{a, tunnel.Host, &host}, {b, tunnel.Guest, &guest}} {
		ours, theirs, err := tunnel.Pair()
		if err != nil {
			t.Fatal(err)
		}
		*e.to = ours
		done := make(chan error, 1)
		go func() { done <- tunnel.Carry(e.conn, bufio.NewReader(e.conn), theirs, e.side, nil) }()
		t.Cleanup(func() { ours.Close(); <-done })
	}
	return host, guest
}

func TestBothDirectionsAndHalfClose(t *testing.T) {
	host, guest := ends(t)
	sent := strings.Repeat("0123456789", 50_000)
	go func() {
		io.WriteString(host, sent)
		host.CloseWrite()
	}()
	if got, err := io.ReadAll(guest); err != nil || string(got) != sent {
		t.Fatalf("%d of %d bytes, %v", len(got), len(sent), err)
	}
	// The other direction is still open.
	if _, err := io.WriteString(guest, "answer"); err != nil {
		t.Fatal(err)
	}
	guest.Close()
	if got, err := io.ReadAll(host); err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestHostileFrames(t *testing.T) {
	huge := append([]byte{0x82, 127}, binary.BigEndian.AppendUint64(nil, 1<<40)...)
	for name, c := range map[string]struct {
		frames []byte
		want   string
	}{
		"honest":            {[]byte{0x82, 2, 'o', 'k', 0x88, 0}, ""},
		"masked":            {[]byte{0x82, 0x82, 1, 2, 3, 4, 'o' ^ 1, 'k' ^ 2, 0x88, 0}, ""},
		"in parts":          {[]byte{0x02, 1, 'o', 0x80, 1, 'k', 0x88, 0}, ""},
		"too long":          {huge, "maximum"},
		"long control":      {[]byte{0x89, 126, 1, 0}, "maximum"},
		"extension":         {[]byte{0xC2, 0}, "extension"},
		"unknown kind":      {[]byte{0x83, 0}, "unknown kind"},
		"cut in the middle": {[]byte{0x82, 5, 'o', 'k'}, "unexpected EOF"},
	} {
		ours, theirs, err := tunnel.Pair()
		if err != nil {
			t.Fatal(err)
		}
		conn := rw{bytes.NewReader(c.frames)}
		done := make(chan error, 1)
		go func() { done <- tunnel.Carry(conn, bufio.NewReader(conn), theirs, tunnel.Host, nil) }()
		got, _ := io.ReadAll(ours)
		ours.Close()
		err = <-done
		switch {
		case c.want == "" && (err != nil || string(got) != "ok"):
			t.Errorf("%s: %q, %v", name, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// rw reads what it has and accepts what is written.
type rw struct{ io.Reader }

func (rw) Write(p []byte) (int, error) { return len(p), nil }
func (rw) Close() error                { return nil }

func TestProof(t *testing.T) {
	token := []byte("0123456789abcdef")
	p := tunnel.Proof(token, tunnel.Host, "key")
	for name, ok := range map[string]bool{
		"same": tunnel.Check(p, token, tunnel.Host, "key"), "other side": !tunnel.Check(p, token, tunnel.Guest, "key"),
		"other key": !tunnel.Check(p, token, tunnel.Host, "k"), "other token": !tunnel.Check(p, []byte("0123456789abcdeF"), tunnel.Host, "key"),
	} {
		if !ok {
			t.Errorf("%s: wrong", name)
		}
	}
	// The example of RFC 6455.
	if got := tunnel.Accept("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Errorf("accept %q", got)
	}
}
