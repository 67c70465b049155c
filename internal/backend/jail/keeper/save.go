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
	// quietTimeout bounds how long a guest may take to let go of its streams.
	quietTimeout = 10 * time.Second
	// saveTimeout bounds the writing of a kernel's memory.
	saveTimeout = 10 * time.Minute
	// maxFiles bounds the descriptors of a request.
	maxFiles = 8
)

// requests answers the daemon's, one at a time.
func (k *keeper) requests() {
	l, err := listener(k.cfg.Requests)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hortus-keeper:", err)
		os.Exit(ExitFailed)
	}
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		k.answer(c)
		c.Close()
	}
}

// answer reads one request and carries it out.
func (k *keeper) answer(c *net.UnixConn) {
	c.SetDeadline(time.Now().Add(quietTimeout))
	buf, oob := make([]byte, maxReport), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, flags, _, err := c.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return
	}
	var fds []int
	if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil {
		for _, m := range msgs {
			got, _ := unix.ParseUnixRights(&m)
			fds = append(fds, got...)
		}
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	closeAll := func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
		fds = nil
	}
	defer closeAll()
	c.SetDeadline(time.Time{})
	var q Request
	a := Answer{Going: true}
	switch err := json.Unmarshal(buf[:n], &q); {
	case err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		a.Error = "the request is malformed"
	case q.Save == nil:
		a.Error = "the request asks for nothing"
	default:
		a = k.save(q, fds)
	}
	closeAll()
	if b, err := json.Marshal(a); err == nil {
		c.SetWriteDeadline(time.Now().Add(quietTimeout))
		c.Write(b)
	}
}

// save silences the guest, has its kernel written down and lets it go on.
func (k *keeper) save(q Request, fds []int) Answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	begin := time.Now()
	err := k.quiet()
	if err == nil {
		err = call(k.cfg.Plan.Control, *q.Save, fds, saveTimeout)
	}
	a := Answer{OK: err == nil, Going: true}
	if err != nil {
		a.Error = clip(err.Error())
	}
	if q.Stop && err == nil {
		// It ends now: whoever asked sees the end of this process.
		a.Going = false
	} else if _, werr := k.guest.Write([]byte(birth.OnPacket)); werr != nil {
		a.Going = false
		if a.Error == "" {
			a.Error = "the guest did not go on: " + clip(werr.Error())
		}
	}
	a.PausedUS = time.Since(begin).Microseconds()
	return a
}

// quiet has the guest let go of its streams. It is told to go on when it does not
// answer in time, since it may still hear that.
func (k *keeper) quiet() error {
	select {
	case <-k.silent: // of an earlier time, when it was too late
	default:
	}
	k.guest.SetWriteDeadline(time.Now().Add(quietTimeout))
	defer k.guest.SetWriteDeadline(time.Time{})
	if _, err := k.guest.Write([]byte(birth.QuietPacket)); err != nil {
		return fmt.Errorf("the guest cannot be told to be quiet: %w", err)
	}
	late := time.NewTimer(quietTimeout)
	defer late.Stop()
	select {
	case r := <-k.silent:
		if r.Error != "" {
			return errors.New("the guest: " + clip(r.Error))
		}
		return nil
	case <-late.C:
		return errors.New("the guest does not let go of its streams")
	}
}
