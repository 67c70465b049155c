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

// maxAnswer is the maximum size of a kernel's answer, in bytes. The kernel's process is not
// trusted: it runs the guest's system calls.
const maxAnswer = 64 << 10

// maxError is the maximum length of an error text that is forwarded, in bytes.
const maxError = 1 << 10

// errLate is the error of a call that was made and not answered in time.
var errLate = errors.New("timeout waiting for a response")

// call makes one call on a control socket: it sends a JSON object, with the descriptors at
// its first byte, and reads another object.
func call(path string, c Call, fds []int, within time.Duration) error {
	got, err := callResult(path, c, fds, within, nil)
	CloseAll(got)
	return err
}

// callResult makes a call, decodes its result into one that is not nil, and returns the
// descriptors that were sent with it, also after an error.
func callResult(path string, c Call, fds []int, within time.Duration, result any) ([]int, error) {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	if err := unix.Connect(s, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	left := unix.NsecToTimeval(int64(within))
	for _, opt := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, opt, &left); err != nil {
			return nil, err
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
		return nil, err
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
			return nil, fmt.Errorf("send: %w", err)
		}
		b, oob = b[n:], nil
	}
	in := &socket{fd: s}
	err = answered(in, result)
	return in.got, err
}

// socket reads a blocking socket, and keeps the descriptors that come with the first bytes.
type socket struct {
	fd   int
	got  []int
	read bool
}

func (s *socket) Read(p []byte) (int, error) {
	for {
		var oob []byte
		if !s.read {
			oob = make([]byte, unix.CmsgSpace(4*maxFiles))
		}
		n, oobn, _, _, err := unix.Recvmsg(s.fd, p, oob, unix.MSG_CMSG_CLOEXEC)
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
		if !s.read {
			s.read, s.got = true, Received(oob[:oobn])
		}
		return n, nil
	}
}

// answered reads the answer to a call, and decodes its result into one that is not nil.
func answered(r io.Reader, result any) error {
	var a struct {
		Success bool            `json:"success"`
		Err     string          `json:"err"`
		Result  json.RawMessage `json:"result"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(&a); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the kernel has ended")
		}
		return err
	}
	if !a.Success {
		return errors.New(sanitize(a.Err))
	}
	if result == nil || len(a.Result) == 0 {
		return nil
	}
	return json.Unmarshal(a.Result, result)
}

// sanitize returns the first line of an untrusted text, truncated, in printable ASCII.
func sanitize(s string) string {
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
		return "unknown error"
	}
	return string(b)
}
