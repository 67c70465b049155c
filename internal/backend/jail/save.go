package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/sandbox"
)

// Save writes the state of a kernel of its own, else the files. See sandbox.Saver.
// The Mark is the backend's to fill in.
func (m *machine) Save(ctx context.Context, dir string, o sandbox.SaveOptions) (sandbox.Saved, error) {
	if m.b.cfg.Kernel == nil {
		return m.saveFiles(ctx, dir, o)
	}
	return m.saveMemory(ctx, dir, o)
}

// saveMemory writes the state of a kernel of its own.
func (m *machine) saveMemory(ctx context.Context, dir string, o sandbox.SaveOptions) (sandbox.Saved, error) {
	var saved sandbox.Saved
	if o.Files {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s: its files cannot be saved without its memory", m.id).
			WithHint("Leave --files-only out.")
	}
	if m.ws != nil && m.ws.upper != nil {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s has a durable workspace, which a snapshot of its memory does not hold", m.id)
	}
	m.mu.Lock()
	paused := m.paused
	m.mu.Unlock()
	if paused {
		// What is frozen can neither let go of its streams nor write.
		if err := m.Resume(ctx); err != nil {
			return saved, err
		}
		defer m.Pause(context.WithoutCancel(ctx))
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, name := range m.b.cfg.Kernel.Files() {
		// Who expects the image may have it open already: see Expect.
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return saved, api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
		}
		files = append(files, f)
		if st, err := f.Stat(); err != nil || st.Size() != 0 {
			return saved, api.Errorf(api.KindInternal, "sandbox %s: %s is not empty", m.id, name)
		}
	}
	q := keeper.Request{Save: ptr(m.b.cfg.Kernel.Save())}
	if o.Hold {
		q.Hold = ptr(m.b.cfg.Kernel.Hold())
	}
	a, conn, err := m.ask(ctx, q, files)
	if err != nil {
		return saved, err
	}
	held := false
	defer func() {
		if !held {
			conn.Close() // it goes on
		}
	}()
	if !a.OK {
		kind := api.KindInternal
		if full(dir) {
			kind = api.KindExhausted
		}
		return saved, api.Errorf(kind, "sandbox %s could not be saved: %s", m.id, a.Error)
	}
	if err := writeSizes(dir, files); err != nil {
		kind := api.KindInternal
		if full(dir) {
			kind = api.KindExhausted
		}
		return saved, api.Errorf(kind, "sandbox %s could not be saved: %w", m.id, err)
	}
	if o.Hold && !a.Held {
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s was started by an earlier version, and cannot stand still after a save", m.id).
			WithHint("take a snapshot of it: hortus sandbox snapshot %s", m.id)
	}
	if held = o.Hold; held {
		m.hold(conn)
	}
	saved.Mark = m.image // of what it runs on, which may be another than new ones do
	saved.Kind, saved.Paused = api.SnapshotMemory, time.Duration(a.PausedUS)*time.Microsecond
	return saved, nil
}

func ptr[T any](v T) *T { return &v }

// full says whether a directory's disk has no room left.
func full(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Bavail < 16
}

// saveWait bounds how long a save may go on whose caller has given up.
const saveWait = time.Minute

// ask sends the keeper a request and waits for its answer. The keeper's is a
// hostile word: it sits beside the kernel that untrusted code runs on. What it holds,
// it holds until the connection is closed, which is the caller's.
func (m *machine) ask(ctx context.Context, q keeper.Request, files []*os.File) (a keeper.Answer, _ *net.UnixConn, err error) {
	b, err := json.Marshal(q)
	if err != nil {
		return a, nil, api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
	}
	dir, err := os.Open(m.dir)
	if err != nil {
		return a, nil, errGone()
	}
	defer dir.Close()
	// By descriptor, because a name may be longer than an address holds.
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), keeper.SocketName)})
	if err != nil {
		return a, nil, api.Errorf(api.KindUnavailable, "sandbox %s: its keeper does not answer: %w", m.id, err)
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if pid, err := peer(c); err != nil || pid != m.proc.Pid {
		return a, nil, api.Errorf(api.KindUnavailable, "process %d answers for sandbox %s, not its keeper %d", pid, m.id, m.proc.Pid)
	}
	// A save that has begun ends: nobody can take a kernel from its writing, and who
	// came back before would find streams that are about to be cut.
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now().Add(saveWait)) })
	defer stop()
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	if _, _, err := c.WriteMsgUnix(b, unix.UnixRights(fds...), nil); err != nil {
		return a, nil, api.Errorf(api.KindUnavailable, "sandbox %s: its keeper does not answer: %w", m.id, err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if cerr := ctx.Err(); cerr != nil {
		return a, nil, api.Errorf(api.KindOf(cerr), "sandbox %s was not saved in time: %w", m.id, cerr)
	}
	if err == nil && n == 0 {
		err = errors.New("it ended")
	}
	if err == nil {
		a, err = answered(buf[:n])
	}
	if err != nil {
		cause := m.Cause()
		if cause == "" {
			cause = err.Error()
		}
		return a, nil, api.Errorf(api.KindUnavailable, "sandbox %s ended while it was saved: %s", m.id, cause)
	}
	return a, c, nil
}

// maxPaused bounds how long a guest is said to have stood still, in microseconds: no
// save takes a day.
const maxPaused = 24 * 60 * 60 * 1e6

// answered reads a keeper's answer. What is said and cannot be is bounded.
func answered(b []byte) (keeper.Answer, error) {
	var a keeper.Answer
	if err := json.Unmarshal(b, &a); err != nil {
		return keeper.Answer{}, errors.New("its keeper's answer is malformed")
	}
	a.PausedUS = min(max(a.PausedUS, 0), maxPaused)
	a.Error = clip(a.Error, 300)
	return a, nil
}
