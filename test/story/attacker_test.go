package story

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/test/tier"
)

// TestStrangersDataDirectory prepares a data directory for a victim.
func TestStrangersDataDirectory(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("making a directory for somebody else needs root")
	}
	g := newEmptyGarden(t)
	base := filepath.Dir(g.dir)
	trap := filepath.Join(base, "trap")
	if err := os.Mkdir(trap, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(trap, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(trap, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{trap, link} {
		r := g.run("--data-dir", dir, "run", "print the first 5 primes")
		if r.code != 1 || !strings.Contains(r.stderr, "belongs to user 1000, not to 0") || !strings.Contains(r.stderr, "  next: ") {
			t.Errorf("%s: %s", dir, r)
		}
		entries, err := os.ReadDir(trap)
		if err != nil || len(entries) > 0 {
			t.Errorf("%s: something was written: %v, %v", dir, entries, err)
		}
	}
	// One's own that is open to others is closed before anything is put there.
	if err := os.Mkdir(g.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(g.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	g.must("task", "ls")
	var st unix.Stat_t
	if err := unix.Stat(g.dir, &st); err != nil || st.Mode&0o077 != 0 {
		t.Errorf("the data directory has mode %o (%v)", st.Mode, err)
	}
	// And its socket is closed to others.
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	r := g.outside("setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "sh", "-c", "ls "+g.dir+"; cat <"+g.dir+"/hortus.db")
	if r.code == 0 || r.stdout != "" {
		t.Errorf("another user got in: %s", r)
	}
}

// TestLyingSocket has something else answer at the daemon's socket.
func TestLyingSocket(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	for name, serve := range map[string]func(net.Conn){
		"closes": func(net.Conn) {},
		"silence": func(c net.Conn) { // until the other side has had enough
			_, _ = io.Copy(io.Discard, c)
		},
		"garbage": func(c net.Conn) { _, _ = c.Write([]byte(strings.Repeat("\x00\xffgarbage", 1000))) },
		"endless head": func(c net.Conn) {
			if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\n")); err != nil {
				return
			}
			for {
				if _, err := c.Write([]byte("X: " + strings.Repeat("y", 1000) + "\r\n")); err != nil {
					return
				}
			}
		},
		"endless body": func(c net.Conn) {
			if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"pid\": 1")); err != nil {
				return
			}
			for {
				if _, err := c.Write([]byte(strings.Repeat("1", 4096))); err != nil {
					return
				}
			}
		},
		"not JSON": func(c net.Conn) {
			buf := make([]byte, 4096)
			_, _ = c.Read(buf)
			_, _ = io.WriteString(c, "HTTP/1.1 500 x\r\nContent-Length: 14\r\n\r\n\x1b[31mowned\x1b[0m")
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "silence" {
				tier.Soak(t) // half a minute of it
			}
			t.Parallel()
			g := newGarden(t)
			if err := os.MkdirAll(g.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("unix", filepath.Join(g.dir, "hortus.sock"))
			if err != nil {
				t.Fatal(err)
			}
			// The real daemon owns the place and puts its own socket there.
			ln.(*net.UnixListener).SetUnlinkOnClose(false)
			var serving sync.WaitGroup
			serving.Go(func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					serve(c)
					c.Close()
				}
			})
			r := g.run("task", "ls", "--json")
			ln.Close()
			serving.Wait()
			if strings.Contains(r.stdout+r.stderr, "\x1b") || strings.Contains(r.stderr, "panic") {
				t.Errorf("the liar reached the terminal: %q", r)
			}
			if r.code == 0 && strings.TrimSpace(r.stdout) != "[]" {
				t.Errorf("an answer that nobody gave: %s", r)
			}
			if r.code != 0 && !strings.HasPrefix(r.stderr, "hortus: ") {
				t.Errorf("no message: %s", r)
			}
		})
	}
}
