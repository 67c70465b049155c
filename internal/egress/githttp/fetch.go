package githttp

import (
	"errors"
	"io"
	"strings"

	"hortus.dev/api/secrets"
)

// fetch checks the body of git-upload-pack, a line for each step.
type fetch struct {
	rule secrets.Git
	src  *source
	v2   bool // the client asked for version 2
	max  int64

	state   fetchState
	command string // of version 2
	lines   int
}

type fetchState int

const (
	fetchStart    fetchState = iota
	fetchWants               // versions 0 and 1: until the flush
	fetchHaves               // versions 0 and 1: behind it
	fetchFeatures            // version 2: capabilities
	fetchArgs                // version 2: arguments of the command
	fetchEnd                 // nothing may follow
)

// step checks a line.
func (f *fetch) step() error {
	kind, text, err := readLine(f.src)
	if failure := f.src.failure(); failure != nil && failure != errInflate {
		return failure
	}
	switch {
	case err == io.EOF:
		if f.state == fetchStart || f.state == fetchFeatures || f.state == fetchArgs || f.state == fetchWants {
			return refuse(f.rule, "the request ends too early")
		}
		return io.EOF
	case errors.Is(err, errLine) || err == io.ErrUnexpectedEOF || err == errInflate || err == errWindow:
		return refuse(f.rule, "the request is malformed: %v", err)
	case err != nil:
		return err
	case f.src.n > f.max:
		return refuse(f.rule, "the request is larger than %d MiB", f.max>>20)
	}
	f.lines++
	if !f.line(kind, string(text)) {
		what := string(text)
		switch kind {
		case flushLine:
			what = "the end of a section"
		case delimLine:
			what = "a delimiter"
		}
		return refuse(f.rule, "line %d of the request is not one of a fetch: %.100q", f.lines, what)
	}
	return nil
}

// line checks a line, and reports whether it is allowed.
func (f *fetch) line(kind lineKind, text string) bool {
	if kind == dataLine && len(text) > 4*maxRef {
		return false
	}
	switch f.state {
	case fetchStart:
		if command, ok := strings.CutPrefix(text, "command="); ok && kind == dataLine {
			f.command, f.state = command, fetchFeatures
			return f.v2 && (command == "ls-refs" || command == "fetch")
		}
		if kind == flushLine { // git tests with it whether it may ask
			f.state = fetchEnd
			return true
		}
		f.state = fetchWants
		verb, rest, _ := strings.Cut(text, " ")
		first, capabilities, _ := strings.Cut(rest, " ")
		return kind == dataLine && verb == "want" && isID(first) && fetchCapabilities(capabilities)
	case fetchWants:
		if kind == flushLine {
			f.state = fetchHaves
			return true
		}
		return kind == dataLine && (isLine(text, "want", isID) || shallowLine(text))
	case fetchHaves:
		return kind == flushLine || kind == dataLine && (text == "done" || isLine(text, "have", isID))
	case fetchFeatures:
		switch kind {
		case flushLine:
			f.state = fetchEnd
			return true
		case delimLine:
			f.state = fetchArgs
			return true
		}
		return commonCapability(text)
	case fetchArgs:
		if kind == flushLine {
			f.state = fetchEnd
			return true
		}
		if f.command == "ls-refs" {
			return kind == dataLine && (text == "peel" || text == "symrefs" || text == "unborn" || isLine(text, "ref-prefix", isName))
		}
		return kind == dataLine && fetchArgument(text)
	}
	return false
}

// isLine reports whether a line is a word and a value of a form.
func isLine(text, word string, form func(string) bool) bool {
	rest, ok := strings.CutPrefix(text, word+" ")
	return ok && form(rest)
}

// isName reports whether a text may be a ref or its beginning: no control characters, bounded.
func isName(s string) bool {
	return s != "" && len(s) <= maxRef && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) < 0
}

// shallowLine reports whether a line limits the history, or is the filter of a partial clone.
func shallowLine(text string) bool {
	return isLine(text, "shallow", isID) || isLine(text, "deepen", isNumber) || isLine(text, "deepen-since", isNumber) ||
		isLine(text, "deepen-not", isName) || isLine(text, "filter", isPlain)
}

// fetchArgument reports whether a line is an argument of fetch in version 2.
func fetchArgument(text string) bool {
	switch text {
	case "done", "thin-pack", "no-progress", "include-tag", "ofs-delta", "deepen-relative", "sideband-all", "wait-for-done":
		return true
	}
	return isLine(text, "want", isID) || isLine(text, "have", isID) || isLine(text, "want-ref", isName) || shallowLine(text)
}

// fetchCapabilities reports whether all capabilities of a fetch in versions 0 and 1 are known.
func fetchCapabilities(text string) bool {
	for c := range strings.SplitSeq(text, " ") {
		switch c {
		case "", "multi_ack", "multi_ack_detailed", "no-done", "thin-pack", "side-band", "side-band-64k", "ofs-delta",
			"shallow", "deepen-since", "deepen-not", "deepen-relative", "no-progress", "include-tag", "filter",
			"allow-tip-sha1-in-want", "allow-reachable-sha1-in-want":
		default:
			if !commonCapability(c) {
				return false
			}
		}
	}
	return true
}

// commonCapability reports whether a capability is one of all requests.
func commonCapability(c string) bool {
	name, value, ok := strings.Cut(c, "=")
	switch name {
	case "agent", "session-id":
		return ok && isPlain(value)
	case "object-format":
		return value == "sha1" || value == "sha256"
	}
	return false
}
