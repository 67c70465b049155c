package loop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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
			s = api.Clip(s, max(0, room-64)) + fmt.Sprintf("[... %d bytes truncated]", len(s)-max(0, room-64))
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

// ReadTranscript reads what a loop wrote, and calls each for every entry in order;
// an error of each ends it and is returned. Of a writer that died the last line may
// be cut: it is left out, and cut is true. Everything else that no loop writes is
// KindInvalid.
//
// A transcript is untrusted: lines, entries and all of it are bounded, and one
// entry at a time is held.
func ReadTranscript(r io.Reader, each func(Entry) error) (cut bool, err error) {
	in := bufio.NewReaderSize(io.LimitReader(r, MaxTranscript+1), 64<<10)
	var line []byte
	size := 0
	for n := 1; ; n++ {
		var end error
		if line, end = readLine(in, line[:0]); end != nil && !errors.Is(end, io.EOF) {
			return false, api.Errorf(api.KindOf(end), "read line %d of the transcript: %w", n, end)
		}
		if size += len(line) + 1; size > MaxTranscript+1 {
			return false, api.Errorf(api.KindInvalid, "the transcript has more than %d bytes", MaxTranscript)
		}
		if len(line) == 0 && end != nil {
			return false, nil
		}
		if n > MaxTranscriptEntries {
			return false, api.Errorf(api.KindInvalid, "the transcript has more than %d lines", MaxTranscriptEntries)
		}
		e, err := parseEntry(line)
		switch {
		case err != nil && end != nil:
			return true, nil
		case err != nil:
			return false, api.Errorf(api.KindInvalid, "line %d of the transcript is damaged: %w", n, err)
		case e.N != n:
			return false, api.Errorf(api.KindInvalid, "line %d of the transcript has the wrong number %d", n, e.N)
		}
		if err := each(e); err != nil {
			return false, err
		}
		if end != nil {
			return false, nil
		}
	}
}

// readLine returns a line without its end; with io.EOF it had none.
func readLine(in *bufio.Reader, line []byte) ([]byte, error) {
	for {
		piece, err := in.ReadSlice('\n')
		if len(line)+len(piece) > MaxTranscriptLine {
			return nil, api.Errorf(api.KindInvalid, "the line has more than %d bytes", MaxTranscriptLine)
		}
		line = append(line, piece...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF):
			return line, io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func parseEntry(line []byte) (Entry, error) {
	var e Entry
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return e, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return e, errors.New("data follows the JSON value")
	}
	switch {
	case !slices.Contains(entryKinds[:], e.Kind):
		return e, errors.New("it is of an unknown kind")
	case e.Round < 0 || e.Step < 0 || e.MS < 0 || len(e.Calls) > maxCalls:
		return e, errors.New("a count is out of range")
	}
	text := len(e.Text)
	for _, c := range e.Calls {
		text += len(c.Input)
	}
	if text > MaxTranscriptText+maxCalls*64 {
		return e, errors.New("its text is too long")
	}
	return e, nil
}

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
