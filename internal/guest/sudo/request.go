//go:build linux

package sudo

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Socket is the name of the guest's socket, in the abstract namespace of unix sockets,
// which belongs to the sandbox. A client sends one request with three descriptors (standard
// input, output and error), then one byte for each signal: its number. The guest sends one
// answer. If the connection ends earlier, the guest kills the command.
const Socket = "@hortus/sudo"

// Request is a command to run. Its strings are any bytes but NUL.
type Request struct {
	// User is the name of the user; empty means root.
	User string
	// Args are the command and its arguments; there is at least one.
	Args []string
	// Dir is the working directory; empty means the user's home.
	Dir string
	// Env is added to the user's environment.
	Env map[string]string
	// Terminal is true if the descriptors are a terminal for this command only, which
	// becomes its controlling terminal.
	Terminal bool
}

// wire is a Request as it is sent: bytes are base64, because a JSON string cannot hold what is
// not UTF-8, and another name would be another file. Env has NAME=VALUE.
type wire struct {
	User     []byte   `json:"user,omitempty"`
	Args     [][]byte `json:"args,omitempty"`
	Dir      []byte   `json:"dir,omitempty"`
	Env      [][]byte `json:"env,omitempty"`
	Terminal bool     `json:"terminal,omitempty"`
}

// MarshalJSON encodes the request with all its bytes.
func (r *Request) MarshalJSON() ([]byte, error) {
	w := wire{User: []byte(r.User), Dir: []byte(r.Dir), Terminal: r.Terminal}
	for _, a := range r.Args {
		w.Args = append(w.Args, []byte(a))
	}
	for name, value := range r.Env {
		w.Env = append(w.Env, []byte(name+"="+value))
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes what MarshalJSON encoded.
func (r *Request) UnmarshalJSON(b []byte) error {
	var w wire
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*r = Request{User: string(w.User), Dir: string(w.Dir), Terminal: w.Terminal}
	for _, a := range w.Args {
		r.Args = append(r.Args, string(a))
	}
	for _, pair := range w.Env {
		name, value, ok := strings.Cut(string(pair), "=")
		if !ok {
			return fmt.Errorf("environment variable %.40q has no value", name)
		}
		if r.Env == nil {
			r.Env = map[string]string{}
		}
		r.Env[name] = value
	}
	return nil
}

// Answer is the result of a command.
type Answer struct {
	// Code is the exit code, or 128 plus the number of the signal.
	Code int `json:"code"`
	// Error is why the command was not started; empty if it was.
	Error string `json:"error,omitempty"`
}

// MaxMessage is the maximum size of a request or an answer, in bytes.
const MaxMessage = 2 << 20

// Encode returns a message: its length in four bytes, then JSON.
func Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("message too long: %d bytes, the maximum is %d", len(b), MaxMessage)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...), nil
}

// Decode reads a message of up to MaxMessage bytes.
func Decode(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxMessage {
		return fmt.Errorf("message too long: %d bytes, the maximum is %d", n, MaxMessage)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
