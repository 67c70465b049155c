package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	for _, c := range []struct {
		host, certificates string
		far                bool
		err                string
	}{
		{"", "", false, ""},
		{"unix:///run/docker.sock", "", false, ""},
		{"tcp://127.0.0.1:2375", "", true, ""},
		{"tcp://[::1]:2375", "", true, ""},
		{"tcp://192.0.2.1:2376", "/certificates", true, ""},
		{"tcp://192.0.2.1:2375", "", true, "without encryption"},
		{"tcp://localhost:2375", "", true, "without encryption"}, // a name may be anybody's
		{"tcp://192.0.2.1", "/certificates", true, "use tcp://HOST:PORT"},
		{"tcp://user:secret@192.0.2.1:2376", "/certificates", true, "use tcp://HOST:PORT"},
		{"ssh://host", "", true, ""},
		{"ssh://user@host:2222", "", true, ""},
		{"ssh://user:secret@host", "", true, "with a key"},
		{"ssh://host/run/docker.sock", "", true, "use ssh://USER@HOST"},
		{"ssh://", "", true, "use ssh://USER@HOST"},
		{"http://host", "", false, "use unix://PATH"},
		{"ssh://a b", "", false, "is no address"},
	} {
		a, err := parseAddress(c.host, c.certificates)
		if c.err == "" && (err != nil || a.far != c.far) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: far %v, %v", c.host, a.far, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error has the password: %v", c.host, err)
		}
	}
}

// TestSSH has a program with the name ssh, which says its arguments and then what it reads, and one that fails.
func TestSSH(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	write := func(script string) {
		if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("echo \"$@\"\nexec cat\n")
	u, err := url.Parse("ssh://me@-oProxyCommand=evil:2222")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(sshArguments(u), " "); !strings.HasSuffix(got, "-l me -p 2222 -- -oProxyCommand=evil docker system dial-stdio") {
		t.Errorf("the name of a host may be an option: %s", got)
	}
	args := []string{"-T", "--", "host"}
	c, err := dialSSH(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "hello")
	c.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "-T -- host\nhello" {
		t.Errorf("%q, %v", got, err)
	}
	c.Close()
	write("echo 'Host key verification failed.' >&2\nexit 255\n")
	if c, err = dialSSH(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "not read")
	if _, err := io.ReadAll(c); err == nil || !strings.Contains(err.Error(), "Host key verification failed") {
		t.Errorf("%v", err)
	}
	c.Close()
	write("exec sleep 1000\n")
	if c, err = dialSSH(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	c.Close() // ends it
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dialSSH(canceled, args); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// part is a part of a stream as an engine sends it.
func part(stream byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text))), text...)
}

// TestAttached reads the streams of engines that lie.
func TestAttached(t *testing.T) {
	good := slices.Concat(part(1, "hello "), part(1, "world"))
	for name, c := range map[string]struct {
		sent []byte
		want string
		err  error
	}{
		"two parts":            {good, "hello world", nil},
		"errors not asked for": {slices.Concat(part(1, "a"), part(2, "b")), "a", errStream},
		"another stream":       {part(3, "b"), "", errStream},
		"an empty part":        {slices.Concat(part(1, ""), part(1, "a")), "", errStream},
		"no head":              {[]byte("HTTP/1.1 500 no\r\n"), "", errStream},
		"a part that is short": {append([]byte{1, 0, 0, 0, 255, 255, 255, 255}, "abc"...), "abc", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(&attached{r: bytes.NewReader(c.sent)})
			if string(got) != c.want || !errors.Is(err, c.err) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	for n := range good { // cut in each place
		got, err := io.ReadAll(&attached{r: bytes.NewReader(good[:n])})
		whole := n == 0 || n == len(part(1, "hello "))
		if !strings.HasPrefix("hello world", string(got)) || whole != (err == nil) {
			t.Errorf("cut after %d bytes: %q, %v", n, got, err)
		}
	}
}

func FuzzAttached(f *testing.F) {
	f.Add(slices.Concat(part(1, "hello "), part(1, "world")))
	f.Add(part(2, "x"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		got, err := io.ReadAll(&attached{r: bytes.NewReader(sent)})
		if len(got) > len(sent) || err == nil && len(sent) > 0 && len(got) >= len(sent) {
			t.Errorf("%d bytes of %d, %v", len(got), len(sent), err)
		}
	})
}

var _ net.Conn = (*sshConn)(nil)
