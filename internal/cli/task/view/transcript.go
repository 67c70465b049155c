package view

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
)

// maxTranscriptLine bounds one entry, in bytes.
const maxTranscriptLine = 16 << 20

// ShowTranscript shows JSON lines to people, whatever their fields are: those that
// are short stand in an entry's first line, the others below it.
func ShowTranscript(w io.Writer, r io.Reader) error {
	out := bufio.NewWriter(w)
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxTranscriptLine)
	for lines.Scan() {
		var entry map[string]any
		if json.Unmarshal(lines.Bytes(), &entry) != nil || entry == nil {
			// A line that was cut by the end of the daemon, for one.
			fmt.Fprintf(out, "-- %s\n", human.Sanitize(lines.Text()))
			continue
		}
		showEntry(out, entry)
	}
	err := errors.Join(lines.Err(), out.Flush())
	if err != nil {
		return api.Errorf(api.KindUnavailable, "the download of the transcript was interrupted: %w", err)
	}
	return nil
}

// entryHead are the fields that an entry's first line begins with, where they are,
// and entryText what then stands below it without a name. entryHidden are for
// machines: they are in the lines as they are kept.
const (
	entryHead   = "n at type kind role round step tool name"
	entryText   = "text"
	entryHidden = "usage callId"
)

func showEntry(w io.Writer, entry map[string]any) {
	head := []string{"--"}
	for k := range strings.FieldsSeq(entryHead) {
		text := scalar(entry[k])
		if text == "" {
			continue
		}
		delete(entry, k)
		switch at, err := time.Parse(time.RFC3339, text); {
		case k == "round" || k == "step":
			text = k + " " + text
		case k == "at" && err == nil:
			text = at.Format(time.RFC3339)
		}
		head = append(head, human.Sanitize(text))
	}
	for k := range strings.FieldsSeq(entryHidden) {
		delete(entry, k)
	}
	text := scalar(entry[entryText])
	delete(entry, entryText)
	var below []string
	for _, k := range slices.Sorted(maps.Keys(entry)) {
		if text := scalar(entry[k]); text != "" && len(text) <= 60 && !strings.Contains(text, "\n") {
			head = append(head, human.Sanitize(k+"="+text))
		} else if entry[k] != nil && entry[k] != "" {
			below = append(below, k)
		}
	}
	fmt.Fprintln(w, strings.Join(head, " "))
	showText(w, text)
	for _, k := range below {
		if calls, ok := entry[k].([]any); ok && k == "calls" {
			showCalls(w, calls)
			continue
		}
		fmt.Fprintf(w, "   %s:\n", human.Sanitize(k))
		showText(w, textOf(entry[k]))
	}
}

// showCalls shows what a model wants to use, each with its input.
func showCalls(w io.Writer, calls []any) {
	for _, c := range calls {
		m, ok := c.(map[string]any)
		if !ok {
			showText(w, textOf(c))
			continue
		}
		fmt.Fprintf(w, "   %s:\n", human.Sanitize(scalar(m["name"])))
		showText(w, textOf(m["input"]))
	}
}

// textOf writes any value for people.
func textOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.MarshalIndent(v, "", "  ") // it was JSON a moment ago
	return string(b)
}

// showText shows lines, each made harmless.
func showText(w io.Writer, text string) {
	if text == "" {
		return
	}
	for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(w, "     %s\n", human.SanitizeTo(strings.TrimRight(l, "\r"), maxPatchLine, "\t"))
	}
}

// scalar writes a value that is no list and no object; empty for one that is.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}
