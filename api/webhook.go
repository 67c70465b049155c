package api

import (
	"encoding/json"
	"time"
)

// LifecycleType is what happened in the life of a sandbox.
type LifecycleType string

const (
	LifecycleCreated LifecycleType = "created"
	LifecycleUpdated LifecycleType = "updated" // its deadline was moved
	LifecyclePaused  LifecycleType = "paused"
	LifecycleResumed LifecycleType = "resumed"
	LifecycleKilled  LifecycleType = "killed" // it ended, or was lost
)

// LifecycleTypes returns all of them.
func LifecycleTypes() []LifecycleType {
	return []LifecycleType{LifecycleCreated, LifecycleUpdated, LifecyclePaused, LifecycleResumed, LifecycleKilled}
}

// LifecycleEvent is an event of a sandbox's log that is about its life. Seq orders those of all
// sandboxes, with gaps.
type LifecycleEvent struct {
	Seq     int64
	Type    LifecycleType
	At      time.Time
	Sandbox Sandbox
	// Number is that of the event in the sandbox's log, and Data its data there.
	Number int64
	Data   json.RawMessage
}

// LifecycleFilter selects events of the sandboxes of one account; "" is the operator's own.
type LifecycleFilter struct {
	Account string
	// Sandbox is one sandbox, "" for all. Types are some types, none for all.
	Sandbox SandboxID
	Types   []LifecycleType
	// After is the Seq that those of the result exceed.
	After int64
	// Ascending begins with the oldest. Offset are left out, and at most Limit are the result.
	Ascending     bool
	Offset, Limit int
}

// Webhook is an address that receives lifecycle events of the sandboxes of an account. The secret
// that signs them is no part of it.
type Webhook struct {
	ID, Account, Name, URL string
	Enabled                bool
	Events                 []LifecycleType
	CreatedAt              time.Time
	// Position is the Seq up to which events were delivered or given up.
	Position int64
}

// WebhookDelivery is one attempt to deliver an event.
type WebhookDelivery struct {
	ID, Webhook string
	// Event is the Seq of the event. Attempts of one event count from 1.
	Event   int64
	Type    LifecycleType
	Sandbox SandboxID
	Attempt int
	At      time.Time
	MS      int64
	// Status is that of the answer; 0 if there was none. Error is empty if it was delivered.
	Status int
	Error  string
	// Last is true if the event was delivered or given up.
	Last bool
}
