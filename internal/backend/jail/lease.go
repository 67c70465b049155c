package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A uid range is rangeSize ids; the first one begins at rangeBase. Ranges that
// touch an entry of /etc/subuid or /etc/subgid are left out.
const (
	rangeSize  = 65536
	rangeBase  = 0x60000000
	rangeCount = 8192
)

// leaseDir holds the locks of the uid ranges. It is one for all daemons of a host: two
// sandboxes with the same ids would share the quotas that the kernel keeps for each id.
const leaseDir = "/run/hortus/uids"

// leases hands out uid ranges that no other sandbox of this host has. A range is
// a file with a lock, which ends with the process that holds it, and a record of
// the sandbox's first process, which may outlive that process.
type leases struct {
	dir string

	mu    sync.Mutex
	free  []*lease
	held  map[int]*lease
	taken [][2]uint64
}

type lease struct {
	n    int
	base int
	lock *os.File
}

func newLeases(dir string) *leases {
	return &leases{dir: dir, held: map[int]*lease{}}
}

// get leases a range. A range that this process had before comes first: its lock
// is still held.
func (l *leases) get() (*lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		le := l.free[n-1]
		l.free = l.free[:n-1]
		return le, nil
	}
	if l.taken == nil {
		if err := os.MkdirAll(l.dir, 0o700); err != nil {
			return nil, err
		}
		l.taken = append(subIDs("/etc/subuid"), subIDs("/etc/subgid")...)
		l.taken = append(l.taken, [2]uint64{0, 0}) // so that it is read once
	}
	for n := range rangeCount {
		if l.held[n] != nil || l.overlaps(n) {
			continue
		}
		f, err := os.OpenFile(filepath.Join(l.dir, strconv.Itoa(n)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil || inUse(f) {
			f.Close()
			continue
		}
		le := &lease{n: n, base: rangeBase + n*rangeSize, lock: f}
		l.held[n] = le
		return le, nil
	}
	return nil, errors.New("every uid range is in use")
}

func (l *leases) overlaps(n int) bool {
	from := uint64(rangeBase + n*rangeSize)
	for _, t := range l.taken {
		if from < t[0]+t[1] && t[0] < from+rangeSize {
			return true
		}
	}
	return false
}

// rangesMapped says whether the ids of the ranges exist here. Inside a user
// namespace, as in a rootless container, root has a few ids only; it is then as
// ordinary as any user and its sandboxes have a single id.
func rangesMapped(uidMap string) bool {
	b, err := os.ReadFile(uidMap)
	if err != nil {
		return true // a kernel without user namespaces, which the probe will say
	}
	for line := range strings.Lines(string(b)) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil &&
			inside <= rangeBase && rangeBase+rangeCount*rangeSize <= inside+count {
			return true
		}
	}
	return false
}

// maxFree is how many ranges are kept locked for the next sandboxes. Each is a
// descriptor, which a burst must not leave behind for good.
const maxFree = 16

// put gives a range back after its last process is gone.
func (l *leases) put(le *lease) {
	le.lock.Truncate(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) >= maxFree {
		delete(l.held, le.n)
		le.lock.Close()
		return
	}
	l.free = append(l.free, le)
}

// record notes the process that the range is for, so that a later owner of the
// lock does not take it while that process lives.
func (le *lease) record(p procID) error {
	if err := le.lock.Truncate(0); err != nil {
		return err
	}
	_, err := le.lock.WriteAt(p.encode(), 0)
	return err
}

// retake takes over the range of a process that outlived its owner. Nobody else can
// have got it meanwhile: who takes its lock finds that process alive, and lets go.
func (l *leases) retake(ctx context.Context, n int, p procID) (*lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[n] != nil {
		return nil, fmt.Errorf("range %d is of a sandbox of this daemon's", n)
	}
	f, err := os.OpenFile(filepath.Join(l.dir, strconv.Itoa(n)), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if ctx.Err() != nil || !errors.Is(err, unix.EWOULDBLOCK) && err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("lock range %d: %w", n, err)
		}
		time.Sleep(time.Millisecond) // somebody is having that look
	}
	buf := make([]byte, 64)
	k, _ := f.ReadAt(buf, 0)
	if was, ok := decodeProcID(buf[:k]); !ok || was != p {
		f.Close()
		return nil, fmt.Errorf("range %d is of another process than %d", n, p.pid)
	}
	le := &lease{n: n, base: rangeBase + n*rangeSize, lock: f}
	l.held[n] = le
	return le, nil
}

// letGo gives up the lock of a range whose process goes on: the record says so.
func (l *leases) letGo(le *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, le.n)
	le.lock.Close()
}

func (l *leases) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, le := range l.held {
		le.lock.Close()
	}
	l.held, l.free = map[int]*lease{}, nil
}

// inUse says whether the process that a lock file names is still there.
func inUse(f *os.File) bool {
	buf := make([]byte, 64)
	n, _ := f.ReadAt(buf, 0)
	p, ok := decodeProcID(buf[:n])
	return ok && p.alive()
}

// subIDs reads the ranges that are given to users, as pairs of start and count.
func subIDs(path string) [][2]uint64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var out [][2]uint64
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 {
			continue
		}
		from, err1 := strconv.ParseUint(f[1], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 33)
		if err1 == nil && err2 == nil {
			out = append(out, [2]uint64{from, count})
		}
	}
	return out
}

// procID names a process beyond the reuse of its number: when it started, in
// clock ticks since boot.
type procID struct {
	pid   int
	start uint64
}

func (p procID) encode() []byte { return fmt.Appendf(nil, "%d %d\n", p.pid, p.start) }

func decodeProcID(b []byte) (procID, bool) {
	var p procID
	if !bytes.HasSuffix(b, []byte("\n")) {
		return p, false
	}
	n, err := fmt.Sscanf(string(b), "%d %d\n", &p.pid, &p.start)
	return p, err == nil && n == 2 && p.pid > 1
}

// processID reads a live process's identity. One that has ended and that nobody has
// collected yet is not alive: it has no memory, no files and no namespaces any more.
func processID(pid int) (procID, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procID{}, err
	}
	// The name, in parentheses, may hold anything.
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 20 {
		return procID{}, fmt.Errorf("/proc/%d/stat is malformed", pid)
	}
	if f[0] == "Z" || f[0] == "X" {
		return procID{}, fmt.Errorf("process %d has ended", pid)
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	return procID{pid, start}, err
}

// alive says whether that very process is there.
func (p procID) alive() bool {
	now, err := processID(p.pid)
	return err == nil && now == p
}
