package loop

import (
	"context"
	"encoding/json"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// Tool is something that the model may use. Its calls come one at a time, but for those of [Config].Reads.
type Tool interface {
	// Spec describes the tool to the model. It is the same at every call: a changed list
	// of tools empties the model's cache.
	Spec() model.Tool
	// Call uses it. Input is what the model wrote, which may be anything. What the
	// model can mend (a malformed input, a file that is not there, a command that
	// fails) is a Result with Failed and a text that teaches; an error means that
	// no tool can continue: the sandbox ended, or ctx did.
	Call(ctx context.Context, input json.RawMessage) (Result, error)
}

// Forgetter is a tool whose results may refer to its earlier ones. The loop calls Forget when it shortens its history, of
// which they may no longer be a part.
type Forgetter interface{ Forget() }

// Result is what a tool says.
type Result struct {
	// Text is what the model reads, cut to what a model should read.
	Text string
	// Failed marks it as a failure.
	Failed bool
	// Short is one line for people; empty to show the beginning of Text.
	Short string
	// OutputBytes counts what was printed, before anything was cut.
	OutputBytes int64
	// Waiting is true if it only waited for something that continues: the same call
	// with the same answer again is no loop.
	Waiting bool
	// Usage is what models used for it, which counts against the budgets.
	Usage api.Usage `json:",omitzero"`
	// Images are shown to a model that reads them. Text says what they are.
	Images []model.Image `json:",omitempty"`
	// Todo is set by a tool that writes the list of what is to be done: the whole list.
	Todo []api.TodoItem `json:",omitempty"`
	// Finish is set by the tool with which a model says that it is done.
	Finish *Finish
}

// Finish is a model's own word about its work. Nothing relies on it.
type Finish struct {
	Summary string
	// Blocked reports that it could not be done, and why.
	Blocked string
	// Value is the structured result, which the tool checked; nil for none.
	Value json.RawMessage `json:",omitempty"`
}
