package runner

import (
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// Events is a command's events in order. Next returns io.EOF after the end.
type Events interface {
	Next() (*envd.ProcessEvent, error)
}

// Stream is a command with its record and events. Close ends the reading, not the command.
// The type is an alias, so that it is the same as in the interfaces of the servers.
type Stream = interface {
	Exec() api.Exec
	Next() (*envd.ProcessEvent, error)
	// Ended is closed when the sandbox of the command has ended.
	Ended() <-chan struct{}
	Close() error
}

// Collect reads events up to the end and keeps the output. Output that exceeds a Text's
// Max is read and counted, so that the command can end.
func Collect(events Events, stdout, stderr *Text) error {
	for {
		ev, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return envd.APIError(err)
		case ev.Data != nil:
			stdout.add(ev.Data.Stdout)
			stderr.add(ev.Data.Stderr)
		}
	}
}

// Text is the beginning of a stream of output.
type Text struct {
	// Max is the maximum number of bytes that are kept.
	Max int

	kept  []byte
	total int64
}

func (t *Text) add(p []byte) {
	t.total += int64(len(p))
	t.kept = append(t.kept, p[:min(len(p), t.Max-len(t.kept))]...)
}

// Total is the number of bytes that the command wrote.
func (t *Text) Total() int64 { return t.total }

// Truncated reports whether the command wrote more than is kept.
func (t *Text) Truncated() bool { return t.total > int64(len(t.kept)) }

// Bytes returns what is kept.
func (t *Text) Bytes() []byte { return t.kept }

// String returns what is kept as valid UTF-8: a character that was cut at the end is left
// out, and U+FFFD replaces invalid bytes.
func (t *Text) String() string {
	s := string(t.kept)
	if t.Truncated() {
		for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
			if c := s[len(s)-n]; utf8.RuneStart(c) {
				if !utf8.FullRuneInString(s[len(s)-n:]) {
					s = s[:len(s)-n]
				}
				break
			}
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
