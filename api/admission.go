package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// WaitCause is what a sandbox waits for before it can begin.
type WaitCause string

const (
	WaitMemory    WaitCause = "memory"    // the host's memory
	WaitDisk      WaitCause = "disk"      // space on the disk of the data directory
	WaitCPUs      WaitCause = "cpus"      // processors
	WaitSandboxes WaitCause = "sandboxes" // the most sandboxes that the host is set to hold
	WaitTurn      WaitCause = "turn"      // it would fit; others were there before
)

// WaitingEvent reports that a sandbox waits for capacity on its host, and since when.
type WaitingEvent struct {
	Cause WaitCause `json:"cause"`
	// Why is the cause in numbers, for a person.
	Why string `json:"why"`
	// Position counts from 1: how many begin before it, and itself. Of is how many
	// wait, of all accounts.
	Position int   `json:"position"`
	Of       int   `json:"of"`
	WaitedMS int64 `json:"waitedMs"`
}

// Words says what the sandbox waits for, for a person: "waits for disk: ...".
func (w WaitingEvent) Words() string {
	what := string(w.Cause)
	switch w.Cause {
	case WaitSandboxes:
		what = "the end of another one"
	case WaitCPUs:
		what = "processors"
	case WaitTurn:
		what = "its turn"
	}
	text := fmt.Sprintf("waits for %s: %s", what, w.Why)
	if w.Position > 1 {
		text += fmt.Sprintf("; %d wait before it", w.Position-1)
	}
	return text
}

// WaitLine is one line of the answer to a client that accepts lines, if what it requests has to wait for capacity. Type says which other
// field is set.
type WaitLine struct {
	Type    LineType      `json:"type"`
	Waiting *WaitingEvent `json:"waiting,omitempty"`
	// Answer is the whole answer of a request that does not wait.
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  *Problem        `json:"error,omitempty"`
}

type patienceKey struct{}

// WithPatience bounds how long what hangs on the context may wait for capacity on the
// host. Work that has begun is not bounded by it. Servers whose clients give up after
// a time say so, so that the answer still reaches them.
func WithPatience(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, d)
}

// PatienceOf returns the bound, and whether there is one.
func PatienceOf(ctx context.Context) (time.Duration, bool) {
	d, ok := ctx.Value(patienceKey{}).(time.Duration)
	return d, ok
}

type waitToldKey struct{}

// WithWaitTold has told called when what hangs on the context begins to wait for capacity on the host, and when it waits for something
// else. Several goroutines may call it at once.
func WithWaitTold(ctx context.Context, told func(WaitingEvent)) context.Context {
	return context.WithValue(ctx, waitToldKey{}, told)
}

// WaitToldOf returns the function of WithWaitTold; nil if nobody wants to know.
func WaitToldOf(ctx context.Context) func(WaitingEvent) {
	told, _ := ctx.Value(waitToldKey{}).(func(WaitingEvent))
	return told
}

type noWaitKey struct{}

// WithoutWaiting has what hangs on the context fail at once if the host has no capacity for it: another host may have. refused is
// called before that.
func WithoutWaiting(ctx context.Context, refused func()) context.Context {
	return context.WithValue(ctx, noWaitKey{}, refused)
}

// RefusedOf returns the function of WithoutWaiting; nil if what hangs on the context may wait.
func RefusedOf(ctx context.Context) func() {
	refused, _ := ctx.Value(noWaitKey{}).(func())
	return refused
}

type elsewhereKey struct{}

// elsewhere is the value of WithElsewhere.
type elsewhere struct {
	room    func() bool
	refused func()
}

// WithElsewhere has what hangs on the context wait for capacity on the host until another host seems to have it, which room reports, again and
// again: then it fails, and can be tried there. refused is called before that.
func WithElsewhere(ctx context.Context, room func() bool, refused func()) context.Context {
	return context.WithValue(ctx, elsewhereKey{}, elsewhere{room, refused})
}

// ElsewhereOf returns the functions of WithElsewhere; nil if what hangs on the context waits on the host.
func ElsewhereOf(ctx context.Context) (room func() bool, refused func()) {
	e, _ := ctx.Value(elsewhereKey{}).(elsewhere)
	return e.room, e.refused
}
