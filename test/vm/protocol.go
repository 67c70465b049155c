package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// port is the name of the virtio port over which the machine speaks.
const port = "hortus"

// message is one line from the machine.
type message struct {
	// Boot is said once, before the first step.
	Boot *boot `json:",omitempty"`
	// Step names the step that Text or Exit is of.
	Step string        `json:",omitempty"`
	Text string        `json:",omitempty"` // a piece of its output
	Exit *exit         `json:",omitempty"`
	Fail string        `json:",omitempty"` // the machine cannot continue
	Done bool          `json:",omitempty"` // every step has run
	At   time.Duration `json:",omitempty"` // since the kernel started
}

// boot is what the machine found.
type boot struct {
	Kernel      string
	Controllers string // of control groups version 2, at the top
	V1          string // hierarchies of version 1: none
	Security    string // security modules
}

// exit is how a step ended.
type exit struct {
	Code int
	Took time.Duration
	Why  string `json:",omitempty"` // it could not be started
}

// orders tell the machine what to do; they lie on the disk of the tests.
type orders struct {
	Steps    []step
	Patience int // by how much tests wait longer than elsewhere
	Timeout  time.Duration
}

// voice sends messages; several goroutines may use it.
type voice struct {
	mu sync.Mutex
	w  io.Writer
}

func (v *voice) say(m message) {
	b, err := json.Marshal(m)
	if err != nil {
		return // a message holds nothing that cannot be marshalled
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	_, _ = v.w.Write(append(b, '\n')) // the host notices that lines are missing
}

// of is a writer for one step's output.
func (v *voice) of(step string) io.Writer { return output{v, step} }

type output struct {
	v    *voice
	step string
}

func (o output) Write(b []byte) (int, error) {
	o.v.say(message{Step: o.step, Text: string(b)})
	return len(b), nil
}
