package forker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/cgroup"
	"hortus.dev/test/patience"
)

const (
	forkerName = "hortus-test-forker"
	childName  = "hortus-test-child"
)

// TestMain is the forker too, and what it forks: that ends as it is told.
func TestMain(m *testing.M) {
	switch {
	case os.Args[0] == forkerName && len(os.Args) == 2 && os.Args[1] == Mode:
		os.Exit(Serve(func() error { return errors.New("no clocks here") }))
	case os.Args[0] == childName:
		os.Exit(childMain())
	}
	os.Exit(m.Run())
}

// childMain reports who it is, and ends when it is told to, with what it is told.
func childMain() int {
	session, _ := unix.Getsid(0)
	fmt.Fprintf(os.NewFile(3, "control"), "%v %d %v %s", os.Args[1:], session, os.Environ(), os.Getenv("GIVEN"))
	b := make([]byte, 1)
	if n, _ := unix.Read(3, b); n == 0 {
		return 99
	}
	return int(b[0])
}

func newForker(t *testing.T) *Forker {
	t.Helper()
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := New(Config{Program: program, Argv0: forkerName, Null: null})
	t.Cleanup(func() {
		f.Close()
		program.Close()
		null.Close()
	})
	return f
}

// order is one without namespaces, which every user may give.
func order(args ...string) Order {
	return Order{Args: append([]string{childName}, args...), Env: []string{"GIVEN=this"}, Seat: cgroup.Seat{FD: -1}}
}

// fork returns a child with our end of its socket.
func fork(t *testing.T, f *Forker, o Order) (*Child, *os.File, error) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	t.Cleanup(func() { ours.Close() })
	c, err := f.Fork(o, theirs)
	theirs.Close()
	if c != nil {
		t.Cleanup(c.Close)
	}
	return c, ours, err
}

// said reads what a child says of itself.
func said(t *testing.T, control *os.File) string {
	t.Helper()
	b := make([]byte, 4096)
	n, err := control.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestFork(t *testing.T) {
	f := newForker(t)
	c, control, err := fork(t, f, order("one", "two"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := said(t, control), fmt.Sprintf("[one two] %d [GIVEN=this] this", c.PID); got != want {
		t.Errorf("the child says %q; want %q", got, want)
	}
	if _, known := c.Ended(time.Millisecond); known {
		t.Error("it is said to have ended")
	}
	if _, err := control.Write([]byte{7}); err != nil {
		t.Fatal(err)
	}
	ws, known := c.Ended(patience.Of(10 * time.Second))
	if !known || !ws.Exited() || ws.ExitStatus() != 7 {
		t.Errorf("it ended with %v, %v", ws, known)
	}
	if err := unix.Kill(c.PID, 0); err != unix.ESRCH {
		t.Errorf("it was not collected: %v", err)
	}
	if _, known := c.Ended(time.Second); known {
		t.Error("it ended a second time")
	}
}

// TestDescriptorIsOfTheChild ends a child by the descriptor that came with it.
func TestDescriptorIsOfTheChild(t *testing.T) {
	c, control, err := fork(t, newForker(t), order())
	if err != nil {
		t.Fatal(err)
	}
	if c.FD < 0 {
		t.Skip("this kernel has no descriptors of processes")
	}
	said(t, control)
	if err := unix.PidfdSendSignal(c.FD, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if ws, known := c.Ended(patience.Of(10 * time.Second)); !known || !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v, %v", ws, known)
	}
}

// TestRefused has the kernel refuse what is requested: its word comes back, and the next
// order is carried out.
func TestRefused(t *testing.T) {
	f := newForker(t)
	o := order()
	o.Namespaces = unix.CLONE_NEWUSER
	o.UIDs, o.GIDs = []syscall.SysProcIDMap{{Size: 0}}, []syscall.SysProcIDMap{{Size: 0}} // no kernel takes none
	before := zombies(t)
	if _, _, err := fork(t, f, o); err == nil {
		t.Fatal("it was carried out")
	} else if errno := syscall.Errno(0); !errors.As(err, &errno) {
		t.Errorf("no error of the kernel's: %v", err)
	}
	bad := order()
	bad.Args = nil
	if _, _, err := fork(t, f, bad); err == nil || !strings.Contains(err.Error(), "no program") {
		t.Errorf("an order without a program: %v", err)
	}
	bad = order()
	bad.UIDs = o.UIDs
	if _, _, err := fork(t, f, bad); err == nil || !strings.Contains(err.Error(), "user namespace") {
		t.Errorf("ids without a user namespace: %v", err)
	}
	clocks := order()
	clocks.Clocks = true
	if _, _, err := fork(t, f, clocks); err == nil || !strings.Contains(err.Error(), "no clocks here") {
		t.Errorf("an order with clocks: %v", err)
	}
	bad = order()
	bad.Seat.Tasks, bad.Seat.Home = []string{filepath.Join(t.TempDir(), "none", "tasks")}, []string{"/dev/null"}
	if _, _, err := fork(t, f, bad); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a group that is not there: %v", err)
	}
	if _, control, err := fork(t, f, order()); err != nil {
		t.Fatal(err)
	} else {
		said(t, control)
	}
	if after := zombies(t); after > before {
		t.Errorf("%d ended processes are not collected", after-before)
	}
}

// zombies counts the processes below this one that nobody has collected.
func zombies(t *testing.T) (n int) {
	t.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if i := strings.LastIndexByte(string(b), ')'); strings.HasPrefix(string(b[i+1:]), " Z") && strings.Contains(string(b[:i]), "forker") {
			n++
		}
	}
	return n
}

// TestForkerKilled kills the forker: its children live, how they end is not known, and
// another one carries out what comes next.
func TestForkerKilled(t *testing.T) {
	f := newForker(t)
	c, control, err := fork(t, f, order())
	if err != nil {
		t.Fatal(err)
	}
	said(t, control)
	f.mu.Lock()
	f.cur.proc.Kill()
	f.mu.Unlock()
	if _, known := c.Ended(patience.Of(10 * time.Second)); known {
		t.Error("its end is told by nobody")
	}
	if err := unix.Kill(c.PID, 0); err != nil {
		t.Errorf("it did not live on: %v", err)
	}
	var next *Child
	for range 3 { // the death may be seen by an order
		if next, _, err = fork(t, f, order()); err == nil {
			break
		}
	}
	if err != nil || next == nil {
		t.Fatalf("no other forker: %v", err)
	}
	control.Write([]byte{0})
}

// TestManyAtOnce forks from many goroutines, and ends each child in turn.
func TestManyAtOnce(t *testing.T) {
	f := newForker(t)
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			c, control, err := fork(t, f, order(fmt.Sprint(n)))
			if err != nil {
				t.Error(err)
				return
			}
			b := make([]byte, 4096)
			if m, err := control.Read(b); err != nil || !strings.HasPrefix(string(b[:m]), fmt.Sprintf("[%d] %d ", n, c.PID)) {
				t.Errorf("child %d of order %d says %q, %v", c.PID, n, b[:m], err)
			}
			control.Write([]byte{byte(n)})
			if ws, known := c.Ended(patience.Of(20 * time.Second)); !known || ws.ExitStatus() != n {
				t.Errorf("child %d ended with %v, %v", n, ws, known)
			}
		})
	}
	all.Wait()
}

// TestClosed sends an order to a forker that was closed, and finds its process gone.
func TestClosed(t *testing.T) {
	f := newForker(t)
	_, control, err := fork(t, f, order())
	if err != nil {
		t.Fatal(err)
	}
	said(t, control)
	f.mu.Lock()
	pid := f.cur.proc.Pid
	f.mu.Unlock()
	f.Close()
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("the forker is there: %v", err)
	}
	if _, _, err := fork(t, f, order()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("an order afterwards: %v", err)
	}
	control.Write([]byte{0})
	runtime.KeepAlive(f)
}
