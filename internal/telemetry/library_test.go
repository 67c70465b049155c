package telemetry

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/test/patience"
)

// buffer is a log that may be read meanwhile.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestLibraries has a server send bytes behind the answer to HEAD, which package net/http writes to the standard log.
func TestLibraries(t *testing.T) {
	const secret = "value-of-a-secret-0123456789"
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				if _, err := http.ReadRequest(br); err == nil {
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n%s\" %s", secret, secret)
					_, _ = br.ReadByte()
				}
			}()
		}
	}()
	output := log.Writer()
	defer log.SetOutput(output)
	head := func(until string, out *buffer) string {
		for end := time.Now().Add(patience.Of(10 * time.Second)); !strings.Contains(out.String(), until); {
			tr := &http.Transport{} // or the bytes could be read as the next answer
			defer tr.CloseIdleConnections()
			resp, err := (&http.Client{Transport: tr}).Head("http://" + ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if time.Now().After(end) {
				t.Fatalf("the log is %q", out)
			}
		}
		return out.String()
	}
	var raw, kept buffer
	log.SetOutput(&raw)
	if text := head("Unsolicited", &raw); !strings.Contains(text, secret) {
		t.Errorf("the control: the standard log is %q", text)
	}
	log.SetOutput(Libraries(slog.New(slog.NewTextHandler(&kept, nil))))
	if text := head("Unsolicited", &kept); strings.Contains(text, secret) || !strings.Contains(text, "a library reports") {
		t.Errorf("the log is %q", text)
	}
}

// TestLibraryLines limits the lines of libraries, and what is in them.
func TestLibraryLines(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(1000, 0)
	l := &libraries{logger: slog.New(slog.NewTextHandler(&b, nil)), now: func() time.Time { return now }}
	for range 5000 {
		fmt.Fprintf(l, "starting with %q; err=x\n", strings.Repeat("secret", 1000))
	}
	if n := strings.Count(b.String(), "\n"); n != maxLibraryLines || b.Len() > 4096 || strings.Contains(b.String(), "secret") {
		t.Errorf("%d lines, %d bytes: %.300s", n, b.Len(), b.String())
	}
	b.Reset()
	now = now.Add(libraryTime)
	io.WriteString(l, "next")
	if !strings.Contains(b.String(), "suppressed=4992") {
		t.Errorf("%s", b.String())
	}
	for in, want := range map[string]string{
		"a b": "a b", `a "s\"s" b "s`: `a "..." b "..."`, `a 's' b`: "a '...' b", "a `s` b": "a `...` b", `a "s\`: `a "..."`, strings.Repeat("x", 1000): strings.Repeat("x", 300), "a\xff\n": "a?",
	} {
		if got := unquoted(in, maxLibraryLine); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
