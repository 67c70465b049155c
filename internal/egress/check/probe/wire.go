package probe

import (
	"encoding/json"
	"errors"
	"io"
)

// Argv0 is the name under which the executable is a probe.
const Argv0 = "hortus-egress-probe"

// Operations of a request.
const (
	// OpDial connects. After an answer that is OK the stream carries the connection's bytes.
	OpDial = "dial"
	// OpListen echoes what comes to an address, until the sandbox ends.
	OpListen = "listen"
	// OpDatagram sends one datagram and waits for one answer.
	OpDatagram = "datagram"
	// OpPing sends an ICMP echo request with Data and waits for the answer.
	OpPing = "ping"
	// OpFlood opens Count connections, sends Data on each and ends the sending half. It holds
	// them until the stream ends. The answer has the number that was open at once.
	OpFlood = "flood"
)

// Request is the first line of a stream.
type Request struct {
	Op string `json:"op"`
	// Network and Address are those of package net.
	Network string `json:"network,omitempty"`
	Address string `json:"address,omitempty"`
	Data    []byte `json:"data,omitempty"`
	Count   int    `json:"count,omitempty"`
	// WaitMS is the maximum wait for an answer, in milliseconds.
	WaitMS int `json:"waitMs,omitempty"`
}

// Answer answers a request.
type Answer struct {
	// Error is empty if it succeeded.
	Error string `json:"error,omitempty"`
	// Address is where OpListen listens.
	Address string `json:"address,omitempty"`
	Data    []byte `json:"data,omitempty"`
	Count   int    `json:"count,omitempty"`
}

// maxLine is the maximum size of a request or an answer, in bytes.
const maxLine = 64 << 10

// WriteLine writes a request or an answer.
func WriteLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// ReadLine reads a request or an answer, and no byte after it.
func ReadLine(r io.Reader, v any) error {
	var line []byte
	for b := make([]byte, 1); len(line) < maxLine; {
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		if b[0] == '\n' {
			return json.Unmarshal(line, v)
		}
		line = append(line, b[0])
	}
	return errors.New("the line is too long")
}
