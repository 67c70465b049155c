package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/tunnel"
)

// address is where an engine is.
type address struct {
	text string
	// far is true if the engine may not have the files of this machine.
	far  bool
	opts []client.Opt
}

// parseAddress parses the address of an engine. certificates is the directory with those for TLS; empty for none.
func parseAddress(host, certificates string) (address, error) {
	a := address{text: host}
	if host == "" {
		a.text = client.DefaultDockerHost
		return a, nil
	}
	u, err := url.Parse(host)
	if err != nil {
		return a, fmt.Errorf("%q is no address of a Docker engine", host) // without what may be a password
	}
	switch u.Scheme {
	case "unix":
		a.opts = []client.Opt{client.WithHost(host)}
		return a, nil
	case "tcp":
		a.far = true
		if u.Port() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return a, fmt.Errorf("%q is no address of a Docker engine: use tcp://HOST:PORT", u.Redacted())
		}
		a.opts = []client.Opt{client.WithHost("tcp://" + u.Host)}
		if certificates != "" {
			file := func(name string) string { return filepath.Join(certificates, name) }
			a.opts = append(a.opts, client.WithTLSClientConfig(file("ca.pem"), file("cert.pem"), file("key.pem")))
			return a, nil
		}
		if ip := net.ParseIP(u.Hostname()); !ip.IsLoopback() {
			return a, fmt.Errorf("the engine at %s would be reached without encryption, and a user who reaches it is root there: name a directory with ca.pem, cert.pem and key.pem (docker.certificates), or use ssh://USER@HOST", host)
		}
		return a, nil
	case "ssh":
		a.far = true
		password := false
		if u.User != nil {
			_, password = u.User.Password()
		}
		if u.Hostname() == "" || password || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return a, fmt.Errorf("%q is no address of a Docker engine: use ssh://USER@HOST, with a key", u.Redacted())
		}
		args := sshArguments(u)
		a.opts = []client.Opt{client.WithHost("tcp://" + sshHost), client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSSH(ctx, args) })}
		return a, nil
	}
	return a, fmt.Errorf("%q is no address of a Docker engine: use unix://PATH, tcp://HOST:PORT or ssh://USER@HOST", u.Redacted())
}

// sshHost is what an engine behind SSH reads as the name of its host, which it ignores.
const sshHost = "docker.invalid:2375"

// sshArguments are the arguments of ssh, as Docker's command line has them. It never asks: keys and host keys are those that the user's
// ssh has.
func sshArguments(u *url.URL) []string {
	args := []string{"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30"}
	if u.User.Username() != "" {
		args = append(args, "-l", u.User.Username())
	}
	if u.Port() != "" {
		args = append(args, "-p", u.Port())
	}
	return append(args, "--", u.Hostname(), "docker", "system", "dial-stdio")
}

// sshConn is a connection to an engine over the standard input and output of an ssh.
type sshConn struct {
	*net.UnixConn
	cmd    *exec.Cmd
	ended  chan struct{} // closed when ssh has ended
	errors bounded
}

// dialSSH starts an ssh. ssh lives as long as the connection.
func dialSSH(ctx context.Context, args []string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ours, theirs, err := tunnel.Pair()
	if err != nil {
		return nil, err
	}
	f, err := theirs.File()
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer f.Close()
	c := &sshConn{UnixConn: ours, cmd: exec.Command("ssh", args...), ended: make(chan struct{})}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = f, f, &c.errors
	c.cmd.WaitDelay = time.Second // a process of its own may have its standard error
	if err := c.cmd.Start(); err != nil {
		ours.Close()
		return nil, err
	}
	go func() {
		c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// Read returns what ssh says instead of an end for which it has a reason.
func (c *sshConn) Read(b []byte) (int, error) {
	n, err := c.UnixConn.Read(b)
	if err != io.EOF && !errors.Is(err, unix.ECONNRESET) { // the latter if it has not read its input
		return n, err
	}
	<-c.ended // it has closed its output
	if text := c.errors.text(); text != "" {
		err = errors.New("ssh: " + strings.TrimPrefix(text, "ssh: "))
	}
	return n, err
}

// Close ends ssh.
func (c *sshConn) Close() error {
	err := c.UnixConn.Close()
	c.cmd.Process.Kill()
	<-c.ended
	return err
}

// bounded keeps the beginning of what is written.
type bounded struct {
	mu sync.Mutex
	b  []byte
}

func (w *bounded) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p[:min(len(p), maxMessage-len(w.b))]...)
	return len(p), nil
}

func (w *bounded) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(bytes.TrimSpace(w.b))
}
