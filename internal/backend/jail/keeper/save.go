package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

const (
	// quiesceTimeout is the maximum duration of one step of a save, except the save itself.
	quiesceTimeout = 10 * time.Second
	// saveTimeout is the maximum duration of writing a kernel's memory.
	saveTimeout = 10 * time.Minute
	// maxResult is the maximum size of a result in an answer, in bytes.
	maxResult = 3 << 10
	// maxFiles is the maximum number of descriptors of a packet.
	maxFiles = 16
)

// answer reads one request and carries it out.
func (k *keeper) answer(c *net.UnixConn) {
	c.SetDeadline(time.Now().Add(quiesceTimeout))
	buf, oob := make([]byte, maxReport), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, flags, _, err := c.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return
	}
	fds := Received(oob[:oobn])
	closeFiles := func() {
		CloseAll(fds)
		fds = nil
	}
	defer closeFiles()
	c.SetDeadline(time.Time{})
	var q Request
	a := Answer{Going: true}
	switch err := json.Unmarshal(buf[:n], &q); {
	case err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		a.Error = "the request is malformed"
	case q.Save == nil && q.Alone == nil:
		a.Error = "the request is empty"
	case q.Save == nil:
		got, err := callResult(k.cfg.Plan.Control, *q.Alone, nil, quiesceTimeout, &a.Result)
		CloseAll(got)
		if len(a.Result) > maxResult {
			a.Result, err = nil, errors.New("the result is too long")
		}
		if a.OK = err == nil; !a.OK {
			a.Error = sanitize(err.Error())
		}
	default:
		k.save(c, q, fds, closeFiles)
		return
	}
	closeFiles()
	reply(c, a, nil)
}

// reply sends an answer. It returns false if the connection is closed.
func reply(c *net.UnixConn, a Answer, fds []int) bool {
	b, err := json.Marshal(a)
	if err != nil {
		return false
	}
	c.SetWriteDeadline(time.Now().Add(quiesceTimeout))
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(b, oob, nil)
	return err == nil
}

// save quiesces the guest, saves its kernel and resumes it: at once, or, with a Hold, when
// the connection ends. That includes the end of the daemon, so that no kernel stays stopped
// without anybody to resume it.
func (k *keeper) save(c *net.UnixConn, q Request, fds []int, closeFiles func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	begin := time.Now()
	err := k.quiesce()
	stopped := false
	if err == nil && q.Hold != nil {
		err = call(k.cfg.Plan.Control, q.Hold.Stop, nil, quiesceTimeout)
		stopped = err == nil || errors.Is(err, errLate) // it may stop later
	}
	if err == nil && q.Prepare != nil {
		err = call(k.cfg.Plan.Control, *q.Prepare, nil, quiesceTimeout)
	}
	if err == nil {
		err = call(k.cfg.Plan.Control, *q.Save, fds, saveTimeout)
	}
	closeFiles()
	var bases struct{ Names []string }
	var baseFDs []int
	if err == nil && q.Bases != nil {
		baseFDs, err = callResult(k.cfg.Plan.Control, *q.Bases, nil, quiesceTimeout, &bases)
	}
	defer CloseAll(baseFDs)
	if err != nil && q.Undo != nil {
		err = errors.Join(err, call(k.cfg.Plan.Control, *q.Undo, nil, quiesceTimeout))
	}
	a := Answer{OK: err == nil, Bases: bases.Names, PausedUS: time.Since(begin).Microseconds()}
	if err != nil {
		a.Error = sanitize(err.Error())
	}
	if a.Held = a.OK && stopped; a.Held {
		if reply(c, a, baseFDs) {
			awaitEnd(c)
		} else {
			k.undo(q)
		}
	}
	werr := k.resume(q, stopped)
	if a.Held {
		return
	}
	if a.Going = werr == nil; !a.Going && a.Error == "" {
		a.Error = "the guest did not resume: " + sanitize(werr.Error())
	}
	a.PausedUS = time.Since(begin).Microseconds()
	if !reply(c, a, baseFDs) && a.OK {
		k.undo(q)
	}
}

// undo makes the call Undo of a request whose daemon ended before it had the answer.
func (k *keeper) undo(q Request) {
	if q.Undo == nil {
		return
	}
	if err := call(k.cfg.Plan.Control, *q.Undo, nil, quiesceTimeout); err != nil {
		fmt.Fprintln(os.Stderr, "hortus-keeper: memory of a fork stays in use:", sanitize(err.Error()))
	}
}

// resume resumes the kernel, if it was stopped, and the guest. If the kernel cannot be
// resumed this process ends, and the kernel with it.
func (k *keeper) resume(q Request, stopped bool) error {
	if stopped {
		if err := call(k.cfg.Plan.Control, q.Hold.Resume, nil, quiesceTimeout); err != nil {
			fmt.Fprintln(os.Stderr, "hortus-keeper: the kernel does not resume:", sanitize(err.Error()))
			os.Exit(ExitFailed)
		}
	}
	_, err := k.guest.Write([]byte(birth.OnPacket))
	return err
}

// awaitEnd waits until the other end of a connection is closed.
func awaitEnd(c *net.UnixConn) {
	buf := make([]byte, 1)
	for {
		if n, err := c.Read(buf); err != nil || n == 0 {
			return
		}
	}
}

// quiesce makes the guest close its streams. After a timeout the caller resumes it too,
// because it may still quiesce later.
func (k *keeper) quiesce() error {
	select {
	case <-k.quiesced: // a late answer to an earlier save
	default:
	}
	k.guest.SetWriteDeadline(time.Now().Add(quiesceTimeout))
	defer k.guest.SetWriteDeadline(time.Time{})
	if _, err := k.guest.Write([]byte(birth.QuietPacket)); err != nil {
		return fmt.Errorf("the guest cannot be quiesced: %w", err)
	}
	late := time.NewTimer(quiesceTimeout)
	defer late.Stop()
	select {
	case r := <-k.quiesced:
		if r.Error != "" {
			return errors.New("guest: " + sanitize(r.Error))
		}
		return nil
	case <-late.C:
		return errors.New("timeout: the guest did not close its streams")
	}
}
