package retry

import (
	"time"

	"hortus.dev/api"
)

// EventRetry is the type of the event that something of a task failed and is tried again; its data is [Event]. Calls of models
// have an event of their own, api.EventModelRetry.
const EventRetry api.EventType = "task.retry"

// What is tried again.
const (
	// Sandbox is the sandbox of an agent, which was lost: another one takes its place over the same workspace.
	Sandbox = "sandbox"
)

// Event reports that something failed and is tried again.
type Event struct {
	What string `json:"what"`
	// Attempt is the try that failed, from 1; Of is how many there can be.
	Attempt int `json:"attempt"`
	Of      int `json:"of"`
	// NextAt is when it is tried again, and WaitMS the time until then.
	NextAt time.Time `json:"nextAt"`
	WaitMS int64     `json:"waitMs"`
	Error  string    `json:"error"`
	// Candidate is the number of the candidate, if the task has several.
	Candidate int `json:"candidate,omitempty"`
}
