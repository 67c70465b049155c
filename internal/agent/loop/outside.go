package loop

import (
	"io"
	"strings"
	"time"
)

// What follows is for agents that are not a [Loop], and report in the same way.

// Transcript writes a transcript that [ReadTranscript] reads. It is for one goroutine.
type Transcript struct{ script *script }

// NewTranscript begins a transcript. now is the clock.
func NewTranscript(w io.Writer, now func() time.Time) *Transcript {
	return &Transcript{newScript(w, now)}
}

// Write adds an entry, whose number and time it sets.
func (t *Transcript) Write(e Entry) { t.script.write(e) }

// Err returns why the transcript ends too early; nil if it is whole.
func (t *Transcript) Err() error { return t.script.failed() }

// ShortLine returns a text as one bounded line that a terminal can show.
func ShortLine(s string) string { return short(s) }

// Prose returns a text with a bounded number of lines that a terminal can show.
func Prose(s string) string { return prose(s) }

// finishAgain ends the message about a gate that failed.
const finishAgain = "then call finish again."

// WithoutFinish returns the message of [GateFailed] for an agent that has no tool finish.
func WithoutFinish(message string) string {
	if head, ok := strings.CutSuffix(message, finishAgain); ok {
		return head + "then end your turn."
	}
	return message
}
