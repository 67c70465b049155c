package network

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Network are network namespaces that are joined by a bridge.
type Network struct {
	t      testing.TB
	spaces []string // the first one is the hub
}

// networks counts the networks of this process: each has names of its own.
var networks atomic.Int64

// Address is that of a namespace: 0 is the hub.
func Address(i int) string { return fmt.Sprintf("10.213.7.%d", i+1) }

// New makes n namespaces and the hub. The test is skipped if it may not.
func New(t testing.TB, n int) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	for _, program := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no network namespaces: %v; install Debian's iproute2 and iptables", err)
		}
	}
	w := &Network{t: t}
	serial := networks.Add(1)
	for i := range n + 1 {
		name := fmt.Sprintf("hortus-%d-%d-%d", os.Getpid(), serial, i)
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			t.Skipf("this host makes no network namespaces: %v: %s", err, out)
		}
		t.Cleanup(func() { w.run("ip", "netns", "del", name) })
		w.spaces = append(w.spaces, name)
		w.run("ip", "-n", name, "link", "set", "lo", "up")
	}
	hub := w.spaces[0]
	w.run("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
	w.run("ip", "-n", hub, "addr", "add", Address(0)+"/24", "dev", "bridge")
	w.run("ip", "-n", hub, "link", "set", "bridge", "up")
	for i, name := range w.spaces[1:] {
		port := fmt.Sprintf("port%d", i+1)
		w.run("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
		w.run("ip", "-n", hub, "link", "set", port, "master", "bridge", "up")
		w.run("ip", "-n", name, "addr", "add", Address(i+1)+"/24", "dev", "eth0")
		w.run("ip", "-n", name, "link", "set", "eth0", "up")
	}
	return w
}

func (w *Network) run(name string, args ...string) {
	w.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		w.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// Path is the file of a namespace, for nsenter.
func (w *Network) Path(i int) string { return filepath.Join("/run/netns", w.spaces[i]) }

// In calls do in a namespace.
func (w *Network) In(i int, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		f, err := os.Open(w.Path(i))
		if err == nil {
			defer f.Close()
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// Listen listens in a namespace.
func (w *Network) Listen(i int, address string) net.Listener {
	w.t.Helper()
	var l net.Listener
	if err := w.In(i, func() (err error) { l, err = net.Listen("tcp", address); return err }); err != nil {
		w.t.Fatal(err)
	}
	return l
}

// Dial connects to an address in a namespace.
func (w *Network) Dial(i int, address string) (c net.Conn, err error) {
	err = w.In(i, func() error { c, err = net.Dial("tcp", address); return err })
	return c, err
}

// Forward passes the connections of a listener on to those that dial makes, and closes the listener with the test.
func Forward(t testing.TB, l net.Listener, dial func() (net.Conn, error)) {
	var joined sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{} // nil after the end
	keep := func(c net.Conn) bool {
		mu.Lock()
		defer mu.Unlock()
		if open == nil {
			c.Close()
			return false
		}
		open[c] = true
		return true
	}
	drop := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		delete(open, c)
		c.Close()
	}
	joined.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			joined.Go(func() {
				if !keep(from) {
					return
				}
				defer drop(from)
				to, err := dial()
				if err != nil || !keep(to) {
					return
				}
				defer drop(to)
				var back sync.WaitGroup
				back.Go(func() { pass(from, to) })
				pass(to, from)
				back.Wait()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		open = nil
		mu.Unlock()
		joined.Wait()
	})
}

// pass copies until the end of one direction, and says that it has ended.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// Drop drops what comes from one namespace, at another one.
func (w *Network) Drop(from, at int) { w.rule("-A", from, at) }

// Pass ends Drop.
func (w *Network) Pass(from, at int) { w.rule("-D", from, at) }

func (w *Network) rule(how string, from, at int) {
	w.t.Helper()
	w.run("ip", "netns", "exec", w.spaces[at], "iptables", "-w", how, "INPUT", "-s", Address(from), "-j", "DROP")
}

// Cut drops everything between two namespaces.
func (w *Network) Cut(a, b int) { w.Drop(a, b); w.Drop(b, a) }

// Join ends Cut.
func (w *Network) Join(a, b int) { w.Pass(a, b); w.Pass(b, a) }
