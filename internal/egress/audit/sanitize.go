package audit

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

// Maximum sizes of what is recorded of one decision, in bytes.
const (
	maxText     = 1 << 10
	maxWord     = 64
	maxCommands = 8
	maxCommand  = 256
)

// sanitize returns a decision whose text can be stored and shown on a terminal. The query of a
// path is removed: it often has credentials.
func sanitize(d api.EgressDecision) api.EgressDecision {
	d.Op = Text(d.Op, maxWord)
	d.Class = api.EgressClass(Text(string(d.Class), maxWord))
	d.Method = Text(d.Method, maxWord)
	d.Ask = Text(d.Ask, maxWord)
	d.Host = Text(strings.ToLower(d.Host), maxText)
	d.Address = Text(d.Address, maxText)
	if i := strings.IndexAny(d.Path, "?#"); i >= 0 {
		d.Path = d.Path[:i]
	}
	d.Path = Text(d.Path, maxText)
	d.Rule = Text(d.Rule, maxText)
	d.Reason = Text(d.Reason, maxText)
	d.Hint = Text(d.Hint, maxText)
	if d.Commands != nil {
		commands := make([]string, min(len(d.Commands), maxCommands))
		for i := range commands {
			commands[i] = Text(oneLine.Replace(d.Commands[i]), maxCommand) // scripts have several
		}
		d.Commands = commands
	}
	return d
}

var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ")

const ellipsis = "…"

// Text returns s with each character that is invalid or that a terminal would not print replaced
// by U+FFFD, truncated to a number of bytes. It is idempotent.
func Text(s string, most int) string {
	if len(s) <= most && plain(s) {
		return s
	}
	var b strings.Builder
	fits := 0 // the size of what leaves space for the ellipsis
	for _, r := range s {
		if !unicode.IsPrint(r) { // control, format (bidirectional, zero width), separators
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > most {
			return b.String()[:fits] + ellipsis
		}
		b.WriteRune(r)
		if b.Len()+len(ellipsis) <= most {
			fits = b.Len()
		}
	}
	return b.String()
}

// plain reports whether s is printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
