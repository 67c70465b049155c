//go:build linux

package sudo

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// Socket is the name of the guest's socket, in the abstract namespace of unix sockets,
// which is a sandbox's own. Whoever connects sends one request with three descriptors (its
// standard input, output and error), then a byte for each signal, by number. The guest
// sends one answer. When the connection ends before that, the guest kills the command.
const Socket = "@hortus/sudo"

// Request asks for a command.
type Request struct {
	// User is the user's name; empty is root.
	User string `json:"user,omitempty"`
	// Args are the command and its arguments; none asks for the user's shell.
	Args []string `json:"args,omitempty"`
	// Dir is where the command starts; empty is the user's home.
	Dir string `json:"dir,omitempty"`
	// Env are variables to add to those of the user.
	Env map[string]string `json:"env,omitempty"`
	// Terminal says that the descriptors are a terminal for the command alone, of which
	// it becomes the controlling process.
	Terminal bool `json:"terminal,omitempty"`
}

// Answer is how the command went.
type Answer struct {
	// Code is the exit code; 128 and more is a signal's number above 128.
	Code int `json:"code"`
	// Error is why the command was not started; empty if it was.
	Error string `json:"error,omitempty"`
}

// MaxMessage bounds a request or an answer, in bytes.
const MaxMessage = 1 << 20

// Encode gives a message: its length in four bytes, then JSON.
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("the command, its arguments and its environment have %d bytes, at most %d are allowed", len(b), MaxMessage)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...), nil
}

// Decode reads a message. The length that it says is not believed beyond MaxMessage.
func Decode(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxMessage {
		return fmt.Errorf("a message of %d bytes, at most %d are allowed", n, MaxMessage)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
