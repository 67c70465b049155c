package api

import "encoding/json"

// RunCode is a piece of code for the code interpreter of a sandbox. Names that it defines stay for
// the next piece in the same context.
type RunCode struct {
	Code string `json:"code"`
	// Language is "python", "javascript", "typescript" or "bash"; empty means python. Each has a
	// default context.
	Language string `json:"language,omitempty"`
	// Context is the id of a context, instead of a language.
	Context string `json:"context,omitempty"`
	// Env are variables of this piece alone.
	Env map[string]string `json:"env,omitempty"`
}

// CodeContext is where pieces of code share what they define: one process in the sandbox.
type CodeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"dir"`
}

// CreateCodeContext is what a new context is made from. Dir is a directory of the sandbox; empty
// means /workspace, where commands run too.
type CreateCodeContext struct {
	Language string `json:"language,omitempty"`
	Dir      string `json:"dir,omitempty"`
}

// CodeEventKind is what a [CodeEvent] says.
type CodeEventKind string

// Types of events. A stream begins with CodeStarted.
const (
	CodeStarted CodeEventKind = "started"
	CodeStdout  CodeEventKind = "stdout"
	CodeStderr  CodeEventKind = "stderr"
	CodeResult  CodeEventKind = "result"
	CodeError   CodeEventKind = "error"
)

// CodeEvent is one event of a piece of code.
type CodeEvent struct {
	Type CodeEventKind `json:"type"`
	// Count is the number of the piece in its context, from 1, of CodeStarted.
	Count int `json:"count,omitempty"`
	// Text is what was printed, or a result as text.
	Text string `json:"text,omitempty"`
	// Main is true for the value of the last expression, false for what the code displayed.
	Main bool `json:"main,omitempty"`
	// Formats are other forms of a result by name: html, markdown, svg, latex and javascript as
	// text; png, jpeg and pdf in base64; json, data (the columns of a data frame) and chart (the
	// data of a plot) as JSON.
	Formats map[string]json.RawMessage `json:"formats,omitempty"`
	// Name, Value and Traceback are of CodeError.
	Name      string `json:"name,omitempty"`
	Value     string `json:"value,omitempty"`
	Traceback string `json:"traceback,omitempty"`
}
