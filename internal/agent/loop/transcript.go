package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

// Bounds of a transcript, kept by who writes and by who reads.
const (
	// MaxTranscriptText is the most text of one entry, the inputs of its calls
	// included, in bytes.
	MaxTranscriptText = 256 << 10
	// MaxTranscriptLine is the longest line; JSON writes some bytes as six.
	MaxTranscriptLine = 2 << 20
	// MaxTranscript is the longest transcript. What is said after it has no entry
	// but for the stop.
	MaxTranscript = 128 << 20
	// MaxTranscriptEntries is the most lines.
	MaxTranscriptEntries = 200_000
)

// EntryKind is what an entry of a transcript is.
type EntryKind string

const (
	KindSystem     EntryKind = "system"    // the standing instruction
	KindUser       EntryKind = "user"      // what a Run was called with
	KindAssistant  EntryKind = "assistant" // an answer of the model, with its calls
	KindTool       EntryKind = "tool"      // the result of a call
	KindNotice     EntryKind = "notice"    // what the loop told the model
	KindCompact    EntryKind = "compact"   // the history was shortened
	KindEscalation EntryKind = "escalation"
	KindStop       EntryKind = "stop" // the end of a Run
)

var entryKinds = [...]EntryKind{KindSystem, KindUser, KindAssistant, KindTool, KindNotice, KindCompact, KindEscalation, KindStop}

// Entry is one line of a transcript.
type Entry struct {
	N    int       `json:"n"` // from 1
	At   time.Time `json:"at"`
	Kind EntryKind `json:"kind"`
	// Round counts the Runs from 1, Step the answers of all of them.
	Round int `json:"round"`
	Step  int `json:"step"`
	// Agent names the sub-agent whose entry it is, which has rounds and steps of its own; empty for the agent itself.
	Agent string `json:"agent,omitempty"`
	// Tool and CallID are those of a result.
	Tool   string `json:"tool,omitempty"`
	CallID string `json:"callId,omitempty"`
	Failed bool   `json:"failed,omitempty"`
	MS     int64  `json:"ms,omitempty"`
	Model  string `json:"model,omitempty"`
	// Cut is true if an answer ends where it was stopped, or grew too long.
	Cut  bool           `json:"cut,omitempty"`
	Stop api.StopReason `json:"stop,omitempty"`
	// Text is all of it, up to [MaxTranscriptText].
	Text  string      `json:"text,omitempty"`
	Calls []EntryCall `json:"calls,omitempty"`
	Usage api.Usage   `json:"usage,omitzero"`
	// How is, of a compact entry, "cut", "summary" or "list"; Before and After are
	// tokens.
	How    string `json:"how,omitempty"`
	Before int64  `json:"tokensBefore,omitempty"`
	After  int64  `json:"tokensAfter,omitempty"`
}

// EntryCall is a call of a tool. Input is what the model wrote, which may be
// anything.
type EntryCall struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Input string `json:"input"`
}

// script writes a transcript. Sub-agents that work at the same time write into one.
type script struct {
	w   io.Writer
	now func() time.Time

	mu   sync.Mutex
	n    int
	size int64
	full bool
	err  error // of the first line that could not be written; nothing follows
}

func newScript(w io.Writer, now func() time.Time) *script { return &script{w: w, now: now} }

// write adds an entry. Its lines are in the order of their numbers, so the lock is held while one is written.
func (s *script) write(e Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil || s.err != nil || s.full && e.Kind != KindStop {
		return
	}
	if e.Kind != KindStop && (s.size > MaxTranscript-2*MaxTranscriptLine || s.n >= MaxTranscriptEntries-100) {
		s.full = true
		e = Entry{Kind: KindNotice, Round: e.Round, Step: e.Step, Text: "[transcript size limit reached; later entries were not saved]"}
	}
	s.n++
	e.N, e.At = s.n, s.now().UTC()
	e.bound()
	line, err := e.line()
	if err == nil {
		_, err = s.w.Write(line)
	}
	if err != nil {
		s.err = api.Errorf(api.KindInternal, "write the transcript: %w", err)
		return
	}
	s.size += int64(len(line))
}

// failed returns why nothing more is written; nil if it is.
func (s *script) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// bound cuts what is too long: the text first has its room, then the calls.
func (e *Entry) bound() {
	room := MaxTranscriptText
	take := func(s string) string {
		s = strings.ToValidUTF8(s, "\uFFFD")
		if len(s) > room {
			s = clip(s, max(0, room-64)) + fmt.Sprintf("[... %d bytes truncated]", len(s)-max(0, room-64))
		}
		room = max(0, room-len(s))
		return s
	}
	e.Text = take(e.Text)
	e.Calls = append([]EntryCall(nil), e.Calls...)
	for i := range e.Calls {
		e.Calls[i].Input = take(e.Calls[i].Input)
	}
}

// line is the entry as it is written. Anyone who pages through it must not have a
// terminal's state changed, so what JSON leaves as it is but a terminal would
// follow is escaped as well.
func (e Entry) line() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, err
	}
	raw := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	out := make([]byte, 0, len(raw)+1)
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		if r >= 0x7f && r < 0x10000 && r != utf8.RuneError && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, raw[:n]...)
		}
		raw = raw[n:]
	}
	return append(out, '\n'), nil
}
