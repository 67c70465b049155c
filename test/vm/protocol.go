package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// port is the name of the virtio port over which the machine sends messages.
const port = "hortus"

// message is one line from the machine.
type message struct {
	// Boot is sent once, before the first step.
	Boot *boot `json:",omitempty"`
	// Step is the name of the step that Text or Exit belongs to.
	Step string        `json:",omitempty"`
	Text string        `json:",omitempty"` // a piece of its output
	Exit *exit         `json:",omitempty"`
	Fail string        `json:",omitempty"` // the machine cannot continue
	Done bool          `json:",omitempty"` // every step has run
	At   time.Duration `json:",omitempty"` // since the kernel started
}

// boot describes the system in the machine.
type boot struct {
	Kernel      string
	Controllers string // of control groups version 2, at the top
	V1          string // hierarchies of version 1; there should be none
	Security    string // security modules
}

// exit is the result of a step.
type exit struct {
	Code int
	Took time.Duration
	Why  string `json:",omitempty"` // why the step could not be run
}

// orders are the steps for the machine and their settings, in a file on the disk of
// the tests.
type orders struct {
	Steps    []step
	Patience int // factor for the timeouts of tests; see package patience
	Timeout  time.Duration
}

// voice sends messages. Several goroutines may use it at once.
type voice struct {
	mu sync.Mutex
	w  io.Writer
}

func (v *voice) say(m message) {
	b, err := json.Marshal(m)
	if err != nil {
		return // impossible: all fields can be marshaled
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	_, _ = v.w.Write(append(b, '\n')) // the host detects missing lines
}

// of returns a writer for the output of a step.
func (v *voice) of(step string) io.Writer { return output{v, step} }

type output struct {
	v    *voice
	step string
}

func (o output) Write(b []byte) (int, error) {
	o.v.say(message{Step: o.step, Text: string(b)})
	return len(b), nil
}
