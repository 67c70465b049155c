package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/keeper"
	"hortus.dev/internal/backend/link"
)

// saveTimeout is the maximum duration of a save after its caller has given up.
const saveTimeout = time.Minute

// Memory saves the memory of a sandbox with a kernel of its own.
type Memory struct {
	ID api.SandboxID
	// Dir is the run directory, and PID the keeper.
	Dir string
	PID int
	// Bases is the directory with the files that its memory refers to. It may be missing.
	Bases string
	// Cause is why the sandbox has ended; "" if that is not known.
	Cause func() string
}

// Save writes the files names into dir. It asks the keeper with q, whose answer is
// untrusted: the keeper runs beside the kernel that untrusted code runs on. If q.Hold is
// set, the kernel stays stopped until the connection that Save returns is closed; otherwise
// there is no connection.
func (m Memory) Save(ctx context.Context, dir string, names []string, q keeper.Request) (a keeper.Answer, conn *net.UnixConn, err error) {
	var files []*os.File
	defer func() {
		Close(files)
		if conn != nil && (err != nil || q.Hold == nil) {
			conn.Close() // the kernel resumes
			conn = nil
		}
	}()
	for _, name := range names {
		// A sandbox that is to be restored from the image may have it open already.
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return a, nil, api.Errorf(api.KindInternal, "sandbox %s: %w", m.ID, err)
		}
		files = append(files, f)
		if st, err := f.Stat(); err != nil || st.Size() != 0 {
			return a, nil, api.Errorf(api.KindInternal, "sandbox %s: %s is not empty", m.ID, name)
		}
	}
	if a, conn, err = m.ask(ctx, q, files); err != nil {
		return a, conn, err
	}
	if !a.OK {
		return a, conn, api.Errorf(failure(dir), "sandbox %s could not be saved: %s", m.ID, a.Error)
	}
	if q.Bases != nil {
		err = writeBases(dir, m.Bases, a.Bases)
	}
	if err == nil {
		for _, name := range a.Bases {
			names = append(slices.Clip(names), BaseFile(name))
		}
		err = writeSizes(dir, names)
	}
	if err != nil {
		return a, conn, api.Errorf(failure(dir), "sandbox %s could not be saved: %w", m.ID, err)
	}
	if q.Hold != nil && !a.Held {
		return a, conn, api.Errorf(api.KindUnsupported, "sandbox %s was started by an earlier version, and cannot stay stopped after a save", m.ID).
			WithHint("take a snapshot of it: hortus sandbox snapshot %s", m.ID)
	}
	return a, conn, nil
}

// failure is the kind of a failed save: a full disk is the user's to free.
func failure(dir string) api.Kind {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil && st.Bavail < 16 {
		return api.KindExhausted
	}
	return api.KindInternal
}

// ask sends the keeper a request and waits for its answer. It returns the connection also
// after an error, if there is one.
func (m Memory) ask(ctx context.Context, q keeper.Request, files []*os.File) (a keeper.Answer, _ *net.UnixConn, err error) {
	b, err := json.Marshal(q)
	if err != nil {
		return a, nil, api.Errorf(api.KindInternal, "sandbox %s: %w", m.ID, err)
	}
	dir, err := os.Open(m.Dir)
	if err != nil {
		return a, nil, link.EndedError()
	}
	defer dir.Close()
	// By descriptor, because the path may be longer than a socket address.
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), keeper.SocketName)})
	if err != nil {
		return a, nil, api.Errorf(api.KindUnavailable, "sandbox %s: its keeper does not respond: %w", m.ID, err)
	}
	if pid, err := link.Peer(c); err != nil || pid != m.PID {
		return a, c, api.Errorf(api.KindUnavailable, "process %d responds for sandbox %s instead of its keeper %d", pid, m.ID, m.PID)
	}
	// A save that has begun cannot be interrupted. Without a wait the caller would use
	// streams that the save is about to close.
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now().Add(saveTimeout)) })
	defer stop()
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	if _, _, err := c.WriteMsgUnix(b, unix.UnixRights(fds...), nil); err != nil {
		return a, c, api.Errorf(api.KindUnavailable, "sandbox %s: its keeper does not respond: %w", m.ID, err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if cerr := ctx.Err(); cerr != nil {
		return a, c, api.Errorf(api.KindOf(cerr), "timeout: sandbox %s was not saved: %w", m.ID, cerr)
	}
	if err == nil && n == 0 {
		err = errors.New("it has ended")
	}
	if err == nil {
		a, err = decodeAnswer(buf[:n])
	}
	if err != nil {
		cause := m.Cause()
		if cause == "" {
			cause = err.Error()
		}
		return a, c, api.Errorf(api.KindUnavailable, "sandbox %s ended while it was being saved: %s", m.ID, cause)
	}
	return a, c, nil
}

// maxPaused is the maximum pause that an answer may claim, in microseconds.
const maxPaused = 24 * 60 * 60 * 1e6

// decodeAnswer decodes a keeper's answer and bounds what it claims.
func decodeAnswer(b []byte) (keeper.Answer, error) {
	var a keeper.Answer
	if err := json.Unmarshal(b, &a); err != nil {
		return keeper.Answer{}, errors.New("its keeper's answer is malformed")
	}
	a.PausedUS = min(max(a.PausedUS, 0), maxPaused)
	a.Error = child.Sanitize(a.Error)
	return a, nil
}
