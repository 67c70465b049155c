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
	// Freeze is the name for its memory if the image is to refer to it; "" if the image is
	// to contain it.
	Freeze string
	// Cause is why the sandbox has ended; "" if that is not known.
	Cause func() string
}

// Result is what a save has made, apart from the files.
type Result struct {
	keeper.Answer
	// Conn holds the kernel stopped until it is closed; nil if that was not asked for.
	Conn *net.UnixConn
	// Held are the files outside of the image that it refers to. The caller closes them.
	Held Held
}

// Save writes the files names into dir. It asks the keeper with q, whose answer is
// untrusted: the keeper runs beside the kernel that untrusted code runs on. If q.Hold is
// set, the kernel stays stopped until the connection of the result is closed. After an error
// there is no result.
func (m Memory) Save(ctx context.Context, dir string, names []string, q keeper.Request) (r Result, err error) {
	var files []*os.File
	var fds []int
	defer func() {
		Close(files)
		keeper.CloseAll(fds)
		if r.Conn != nil && (err != nil || q.Hold == nil) {
			r.Conn.Close() // the kernel resumes
			r.Conn = nil
		}
		if err != nil {
			r.Held.Close()
			r.Held = nil
		}
	}()
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return r, api.Errorf(api.KindInternal, "sandbox %s: %w", m.ID, err)
		}
		files = append(files, f)
		if st, err := f.Stat(); err != nil || st.Size() != 0 {
			return r, api.Errorf(api.KindInternal, "sandbox %s: %s is not empty", m.ID, name)
		}
	}
	if r.Answer, r.Conn, fds, err = m.ask(ctx, q, files); err != nil {
		return r, err
	}
	if !r.OK {
		return r, api.Errorf(failure(dir), "sandbox %s could not be saved: %s", m.ID, r.Error)
	}
	if q.Bases != nil {
		var b Bases
		b, r.Held, err = m.writeBases(dir, r.Bases, fds)
		names = append(slices.Clip(names), b.Files()...)
	}
	if err == nil {
		err = writeSizes(dir, names)
	}
	if err != nil {
		return r, api.Errorf(failure(dir), "sandbox %s could not be saved: %w", m.ID, err)
	}
	if q.Hold != nil && !r.Answer.Held {
		return r, api.Errorf(api.KindUnsupported, "sandbox %s was started by an earlier version, and cannot stay stopped after a save", m.ID).
			WithHint("take a snapshot of it: hortus sandbox snapshot %s", m.ID)
	}
	return r, nil
}

// Call has the kernel make one call, and returns its result, which is untrusted.
func (m Memory) Call(ctx context.Context, c keeper.Call) (json.RawMessage, error) {
	a, conn, fds, err := m.ask(ctx, keeper.Request{Alone: &c}, nil)
	keeper.CloseAll(fds)
	if conn != nil {
		conn.Close()
	}
	if err == nil && !a.OK {
		err = api.Errorf(api.KindInternal, "sandbox %s: %s", m.ID, a.Error)
	}
	return a.Result, err
}

// failure is the kind of a failed save: a full disk is the user's to free.
func failure(dir string) api.Kind {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil && st.Bavail < 16 {
		return api.KindExhausted
	}
	return api.KindInternal
}

// ask sends the keeper a request and waits for its answer, and the descriptors that come with
// it. It returns the connection also after an error, if there is one.
func (m Memory) ask(ctx context.Context, q keeper.Request, files []*os.File) (a keeper.Answer, _ *net.UnixConn, got []int, err error) {
	b, err := json.Marshal(q)
	if err != nil {
		return a, nil, nil, api.Errorf(api.KindInternal, "sandbox %s: %w", m.ID, err)
	}
	dir, err := os.Open(m.Dir)
	if err != nil {
		return a, nil, nil, link.EndedError()
	}
	defer dir.Close()
	// By descriptor, because the path may be longer than a socket address.
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), keeper.SocketName)})
	if err != nil {
		return a, nil, nil, api.Errorf(api.KindUnavailable, "sandbox %s: its keeper does not respond: %w", m.ID, err)
	}
	if pid, err := link.Peer(c); err != nil || pid != m.PID {
		return a, c, got, api.Errorf(api.KindUnavailable, "process %d responds for sandbox %s instead of its keeper %d", pid, m.ID, m.PID)
	}
	// A save that has begun cannot be interrupted. Without a wait the caller would use
	// streams that the save is about to close.
	var grace time.Duration
	if q.Save != nil {
		grace = saveTimeout
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now().Add(grace)) })
	defer stop()
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix(b, oob, nil); err != nil {
		return a, c, got, api.Errorf(api.KindUnavailable, "sandbox %s: its keeper does not respond: %w", m.ID, err)
	}
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*maxFDs))
	n, oobn, flags, _, err := c.ReadMsgUnix(buf, oob)
	if err == nil {
		got = keeper.Received(oob[:oobn])
		if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			err = errors.New("its keeper's answer is too long")
		}
	}
	if cerr := ctx.Err(); cerr != nil {
		return a, c, got, api.Errorf(api.KindOf(cerr), "timeout: the keeper of sandbox %s did not respond in time: %w", m.ID, cerr)
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
		return a, c, got, api.Errorf(api.KindUnavailable, "sandbox %s ended while it was being saved: %s", m.ID, cause)
	}
	return a, c, got, nil
}

// maxFDs is the maximum number of descriptors of an answer.
const maxFDs = 16

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
