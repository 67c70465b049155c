package run

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Argv0 is the name by which the program knows that it is this process.
const Argv0 = "hortus-wasm-run"

// The descriptors that the process inherits, besides the standard ones.
const (
	controlFD = 3 // SOCK_SEQPACKET: the order
	filesFD   = 4 // SOCK_STREAM: package memfs
)

// Setup configures the process, before there is an order. It is its only argument, as JSON.
type Setup struct {
	// Cache is the directory of compiled interpreters, OwnCache that of other modules.
	Cache, OwnCache string
	// Python is the path of the Python interpreter's module; empty if there is none.
	Python string
	// Preload is the interpreter that the process loads before its order.
	Preload Interpreter
}

// Interpreter names a module that Hortus brings; empty for none.
type Interpreter string

// The interpreters.
const (
	JavaScript Interpreter = "javascript"
	Python     Interpreter = "python"
)

// Order is a command.
type Order struct {
	Argv, Env []string
	// Dir is the directory in which relative paths start.
	Dir string
	// Interpreter is the module to run, or File the path of one in the sandbox.
	Interpreter Interpreter
	File        string
	// Memory is the maximum memory of the module, in bytes.
	Memory int64
}

// maxOrder is the maximum size of an order, in bytes.
const maxOrder = 128 << 10

// Encode encodes an order for Send. The error says that it is too large.
func (o Order) Encode() ([]byte, error) {
	data, err := json.Marshal(o)
	if err == nil && len(data) > maxOrder {
		err = fmt.Errorf("the arguments and the environment have %d bytes; the maximum is %d", len(data), maxOrder)
	}
	return data, err
}

// Send sends an encoded order to a process, with its standard descriptors.
func Send(control int, order []byte, files []uintptr) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f)
	}
	return unix.Sendmsg(control, order, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
}

// receive waits for the order and installs its descriptors as the standard ones.
func receive() (Order, error) {
	var o Order
	buf, oob := make([]byte, maxOrder), make([]byte, unix.CmsgSpace(3*4))
	var n, oobn int
	var err error
	for {
		if n, oobn, _, _, err = unix.Recvmsg(controlFD, buf, oob, unix.MSG_CMSG_CLOEXEC); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return o, os.NewSyscallError("recvmsg", err)
	}
	if n == 0 {
		return o, errDone
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return o, fmt.Errorf("the order has no descriptors: %v", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 3 {
		return o, fmt.Errorf("the order has %d descriptors instead of 3: %v", len(fds), err)
	}
	for i, fd := range fds {
		if err := unix.Dup3(fd, i, 0); err != nil {
			return o, os.NewSyscallError("dup3", err)
		}
		unix.Close(fd)
	}
	unix.Close(controlFD)
	return o, json.Unmarshal(buf[:n], &o)
}
