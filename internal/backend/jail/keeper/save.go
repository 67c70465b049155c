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
		k.save(c, q, fds, closeAll)
		return
	}
	closeAll()
	reply(c, a)
}

// reply is false when nobody hears it.
func reply(c *net.UnixConn, a Answer) bool {
	b, err := json.Marshal(a)
	if err != nil {
		return false
	}
	c.SetWriteDeadline(time.Now().Add(quietTimeout))
	_, err = c.Write(b)
	return err == nil
}

// save silences the guest, has its kernel written down and lets it go on: at once, or
// when the connection ends of who asked for it to be held. That is the death of the
// daemon too, so that nothing stands still for a record that nobody makes.
func (k *keeper) save(c *net.UnixConn, q Request, fds []int, closeFiles func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	begin := time.Now()
	err := k.quiet()
	stands := false
	if err == nil && q.Hold != nil {
		err = call(k.cfg.Plan.Control, q.Hold.Stand, nil, quietTimeout)
		stands = err == nil || errors.Is(err, errLate) // or will
	}
	if err == nil {
		err = call(k.cfg.Plan.Control, *q.Save, fds, saveTimeout)
	}
	closeFiles()
	a := Answer{OK: err == nil, PausedUS: time.Since(begin).Microseconds()}
	if err != nil {
		a.Error = clip(err.Error())
	}
	if a.Held = a.OK && stands; a.Held && reply(c, a) {
		awaitEnd(c)
	}
	werr := k.goOn(q, stands)
	if a.Held {
		return
	}
	if a.Going = werr == nil; !a.Going && a.Error == "" {
		a.Error = "the guest did not go on: " + clip(werr.Error())
	}
	a.PausedUS = time.Since(begin).Microseconds()
	reply(c, a)
}

// goOn ends the guest's silence. A kernel that would stand for ever is of no use to
// anybody: then this process ends, and the kernel with it.
func (k *keeper) goOn(q Request, stands bool) error {
	if stands {
		if err := call(k.cfg.Plan.Control, q.Hold.Go, nil, quietTimeout); err != nil {
			fmt.Fprintln(os.Stderr, "hortus-keeper: the kernel does not go on:", clip(err.Error()))
			os.Exit(ExitFailed)
		}
	}
	_, err := k.guest.Write([]byte(birth.OnPacket))
	return err
}

// awaitEnd waits until the other side of a connection is closed. It says nothing more.
func awaitEnd(c *net.UnixConn) {
	buf := make([]byte, 1)
	for {
		if n, err := c.Read(buf); err != nil || n == 0 {
			return
		}
	}
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
