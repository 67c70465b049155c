package telemetry

import (
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// maxLibraryLines is how many lines of libraries are logged in libraryTime. Those above are counted.
	maxLibraryLines = 8
	libraryTime     = time.Minute
	// maxLibraryLine is the maximum size of a line, and maxLibraryStack that of one with a stack.
	maxLibraryLine, maxLibraryStack = 300, 8 << 10
)

// Libraries returns the output for package log, to which libraries write what they have no other place for. It
// goes to logger, a few lines a minute, and without what is quoted: package net/http quotes bytes that a server
// sent, in which a secret may be.
func Libraries(logger *slog.Logger) io.Writer { return &libraries{logger: logger, now: time.Now} }

type libraries struct {
	logger *slog.Logger
	now    func() time.Time

	mu         sync.Mutex
	since      time.Time
	n          int
	suppressed int
}

// Write implements io.Writer. p is one line, or one with a stack.
func (l *libraries) Write(p []byte) (int, error) {
	l.mu.Lock()
	if d := l.now().Sub(l.since); d < 0 || d >= libraryTime {
		l.since, l.n = l.now(), 0
	}
	l.n++
	if l.n > maxLibraryLines {
		l.suppressed++
		l.mu.Unlock()
		return len(p), nil
	}
	suppressed := l.suppressed
	l.suppressed = 0
	l.mu.Unlock()
	most := maxLibraryLine
	if strings.Contains(string(p[:min(len(p), maxLibraryLine)]), "panic") {
		most = maxLibraryStack
	}
	text := unquoted(string(p), most)
	l.logger.Warn("a library reports", "text", text, "suppressed", suppressed)
	return len(p), nil
}

// unquoted returns the beginning of a text without what is between quotes. A quote that does not end quotes the
// rest.
func unquoted(s string, most int) string {
	var b strings.Builder
	for b.Len() < most {
		at := strings.IndexAny(s, "\"'`")
		if at < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:at] + s[at:at+1] + "..." + s[at:at+1])
		rest := s[at+1:]
		for end := s[at]; ; {
			i := strings.IndexAny(rest, string(end)+`\`)
			if i < 0 {
				rest = ""
				break
			}
			c := rest[i]
			if rest = rest[i+1:]; c == end {
				break
			}
			if rest != "" { // what is escaped
				rest = rest[1:]
			}
		}
		s = rest
	}
	out := b.String()
	return strings.ToValidUTF8(strings.TrimSpace(out[:min(len(out), most)]), "?")
}
