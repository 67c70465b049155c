package model

import (
	"context"
	"encoding/json"
	"time"

	"hortus.dev/api"
)

// Model answers requests.
type Model interface {
	// Name is what users choose the model by, for example "offline".
	Name() string
	// Generate answers one request. Deltas, when not nil, is called in order
	// with each piece as it comes, from the calling goroutine; the Response
	// holds the whole all the same.
	//
	// Errors: KindDeclined when the model cannot do what was asked, with a hint
	// for the user; KindInvalid for a request that it cannot read;
	// KindUnauthenticated, KindDenied and KindNotFound for a key or a name that
	// its server does not take; KindUnavailable, KindTimeout and KindExhausted
	// where trying again may help (see [RetryAfter]); the context's own error
	// when it ended. Beside an error the Response tells what was used so far.
	Generate(ctx context.Context, req Request, deltas func(Delta)) (Response, error)
}

// Role says who wrote a message.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Request is one call.
type Request struct {
	// System is the standing instruction; it is the stable prefix that hosted
	// models may cache.
	System   string
	Messages []Message
	Tools    []Tool
	// Output, when set, asks for one JSON value of that schema instead of prose.
	Output *Output
	// MaxTokens bounds the answer; 0 leaves it to the model.
	MaxTokens int
	// Temperature is for models that take one, see [Tempered]; nil leaves it to the model.
	Temperature *float64
}

// Output names a structured answer. Name is stable ("ExecutionPlan"), Schema is
// JSON Schema.
type Output struct {
	Name   string
	Schema json.RawMessage
}

// Message is one turn.
type Message struct {
	Role Role
	Text string
	// Calls are the tool calls of an assistant's message.
	Calls []Call
	// CallID is, in a tool's message, the call that it answers.
	CallID string
	// Failed marks a tool's message as the answer of a call that failed.
	Failed bool
	// Images are those of a tool's message. Only a model that [ReadsImages] may get them.
	Images []Image
}

// Tool is a function that the model may call. Input is JSON Schema.
type Tool struct {
	Name        string
	Description string
	Input       json.RawMessage
}

// Call is one use of a tool. Input is what the model wrote, which may not be the
// JSON that the tool wants; a message may hold it all the same, so that the model
// sees what it did.
type Call struct {
	ID    string
	Name  string
	Input json.RawMessage
}

// Delta is a piece of an answer: text, a call with a part of its input (the first
// one has none), or the news that the call of the model is made again.
type Delta struct {
	Text string
	Call *Call
	// Retry, when set, says that the answer so far is void and starts again.
	Retry *Retry
}

// Retry is a failed try of a call that will be made again.
type Retry struct {
	// Attempt is the try that failed, from 1; Of is how many there can be.
	Attempt, Of int
	// Wait is the time until the next.
	Wait time.Duration
	// Err is why this one failed.
	Err error
}

// StopReason is why an answer ended.
type StopReason string

const (
	StopEnd    StopReason = "end"
	StopTools  StopReason = "tools"
	StopLength StopReason = "length"
)

// Response is the whole answer.
type Response struct {
	Message Message
	Stop    StopReason
	Usage   api.Usage
}
