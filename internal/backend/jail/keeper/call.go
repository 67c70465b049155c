package keeper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// maxAnswer bounds what a kernel answers to a call, in bytes. Its process is not
// trusted: it runs the guest's system calls.
const maxAnswer = 64 << 10

// maxError bounds the text of a failure that is passed on.
const maxError = 1 << 10

// errLate says that a call was made, and not answered in time.
var errLate = errors.New("no answer in time")

// call makes one call on a control socket: a JSON object with the descriptors
// beside its first byte, answered by another object.
func call(path string, c Call, fds []int, within time.Duration) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.Connect(s, &unix.SockaddrUnix{Name: path}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	left := unix.NsecToTimeval(int64(within))
	for _, opt := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, opt, &left); err != nil {
			return err
		}
	}
	if len(c.Arg) == 0 {
		c.Arg = json.RawMessage("null")
	}
	b, err := json.Marshal(struct {
		Method string          `json:"method"`
		Arg    json.RawMessage `json:"arg"`
	}{c.Method, c.Arg})
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for len(b) > 0 {
		n, err := unix.SendmsgN(s, b, oob, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
		b, oob = b[n:], nil
	}
	return answered(&socket{s})
}

// socket reads a blocking socket, and takes no descriptor from it.
type socket struct{ fd int }

func (s *socket) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(s.fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, errLate
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// answered reads the answer to a call.
func answered(r io.Reader) error {
	var a struct {
		Success bool   `json:"success"`
		Err     string `json:"err"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(&a); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the kernel has ended")
		}
		return err
	}
	if !a.Success {
		return errors.New(clip(a.Err))
	}
	return nil
}

// clip keeps the first line of a text that came from hostile hands, bounded.
func clip(s string) string {
	b := []byte(s)
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[:i]
	}
	if len(b) > maxError {
		b = b[:maxError]
	}
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	if len(b) == 0 {
		return "it failed without a word"
	}
	return string(b)
}
