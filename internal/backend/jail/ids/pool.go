package ids

import (
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

	"hortus.dev/internal/platform/proc"
)

// A range has Size ids; the first one starts at base. Ranges that overlap an entry of
// /etc/subuid or /etc/subgid are not used.
const (
	Size  = 65536
	Count = 8192
	base  = 0x60000000
)

// Dir contains the lock files of the ranges. All daemons of a host share it: two
// sandboxes with the same ids would share the quotas that the kernel keeps for each id.
const Dir = "/run/hortus/uids"

// Pool leases ranges that no other sandbox of this host has. A range is a file with a
// lock, which the kernel releases when the daemon ends, and with the identity of the
// sandbox's first process, which may outlive the daemon.
type Pool struct {
	dir string

	mu    sync.Mutex
	free  []*Range
	held  map[int]*Range
	taken [][2]uint64
}

// Range is a leased range of ids. Base is the host's id that is 0 inside.
type Range struct {
	N    int
	Base int
	lock *os.File
}

// NewPool returns the pool whose lock files are in dir.
func NewPool(dir string) *Pool {
	return &Pool{dir: dir, held: map[int]*Range{}}
}

// Get leases a range. It prefers one that was given back and is still locked.
func (l *Pool) Get() (*Range, error) {
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
	for n := range Count {
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
		le := newRange(n, f)
		l.held[n] = le
		return le, nil
	}
	return nil, errors.New("all uid ranges are in use")
}

func (l *Pool) overlaps(n int) bool {
	from := uint64(base + n*Size)
	for _, t := range l.taken {
		if from < t[0]+t[1] && t[0] < from+Size {
			return true
		}
	}
	return false
}

// Mapped reports whether the ids of the ranges exist in the user namespace with this
// uid_map file. In a rootless container root has a few ids only; its sandboxes then get a
// single id, like those of an ordinary user.
func Mapped(uidMap string) bool {
	b, err := os.ReadFile(uidMap)
	if err != nil {
		return true // a kernel without user namespaces: the probe reports that
	}
	for line := range strings.Lines(string(b)) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil &&
			inside <= base && base+Count*Size <= inside+count {
			return true
		}
	}
	return false
}

// maxFree is the maximum number of free ranges that stay locked for the next sandboxes.
// Each of them is an open descriptor.
const maxFree = 16

// Put returns a range after its last process has ended.
func (l *Pool) Put(le *Range) {
	le.lock.Truncate(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) >= maxFree {
		delete(l.held, le.N)
		le.lock.Close()
		return
	}
	l.free = append(l.free, le)
}

// Record writes the process that uses the range. Another daemon that gets the lock does
// not use the range while that process is alive.
func (le *Range) Record(p proc.ID) error {
	if err := le.lock.Truncate(0); err != nil {
		return err
	}
	_, err := le.lock.WriteAt(p.Encode(), 0)
	return err
}

// Inside translates an id of the host to the id inside. For a nil Range it is the single id of
// this process.
func (le *Range) Inside(host uint32) (uint32, bool) {
	if le == nil {
		return UserUID, int(host) == os.Geteuid() || int(host) == os.Getegid()
	}
	inside := int64(host) - int64(le.Base)
	return uint32(inside), inside >= 0 && inside < Size
}

// Retake leases the range of a process that outlived its daemon. No other daemon can have
// leased it: one that gets the lock sees that the process is alive, and unlocks it.
func (l *Pool) Retake(ctx context.Context, n int, p proc.ID) (*Range, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[n] != nil {
		return nil, fmt.Errorf("range %d belongs to another sandbox of this daemon", n)
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
		time.Sleep(time.Millisecond) // another daemon is checking it
	}
	if was, ok := user(f); !ok || was != p {
		f.Close()
		return nil, fmt.Errorf("range %d does not belong to process %d", n, p.PID)
	}
	le := newRange(n, f)
	l.held[n] = le
	return le, nil
}

// Leave unlocks a range whose process keeps running.
func (l *Pool) Leave(le *Range) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, le.N)
	le.lock.Close()
}

// Close unlocks every range.
func (l *Pool) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, le := range l.held {
		le.lock.Close()
	}
	l.held, l.free = map[int]*Range{}, nil
}

func newRange(n int, lock *os.File) *Range { return &Range{N: n, Base: base + n*Size, lock: lock} }

// user is the process that a lock file names.
func user(f *os.File) (proc.ID, bool) {
	buf := make([]byte, 64)
	n, _ := f.ReadAt(buf, 0)
	return proc.Decode(buf[:n])
}

func inUse(f *os.File) bool {
	p, ok := user(f)
	return ok && p.Alive()
}

// subIDs reads the ranges of subordinate ids that users have, as pairs of start and count.
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
