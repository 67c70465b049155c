package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

const (
	maxShort = 200     // of a short form, in bytes
	maxProse = 8 << 10 // of what an event shows of an answer's text
)

// ends returns the beginning and the end of a text that is too long.
func ends(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head := api.Clip(s, most/2)
	tail := s[len(s)-most/2:]
	for tail != "" && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n[... %d bytes truncated ...]\n%s", head, len(s)-len(head)-len(tail), tail)
}

// hidden holds for what moves a terminal's cursor, reorders text or cannot be seen.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError
}

// short makes one bounded line that a terminal can show.
func short(s string) string {
	s = api.Clip(s, 4*maxShort)
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || hidden(r) }), " ")
	if len(s) > maxShort {
		s = strings.TrimSpace(api.Clip(s, maxShort-3)) + "..."
	}
	return s
}

// prose bounds a text of several lines for a terminal.
func prose(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case hidden(r):
			return -1
		}
		return r
	}, s))
	if len(s) > maxProse {
		s = api.Clip(s, maxProse-3) + "..."
	}
	return s
}

func plain(format string, args ...any) string { return short(fmt.Sprintf(format, args...)) }

// inputShort shows the input of a call: its values where it has few, the one that
// says most first.
func inputShort(raw json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return short(string(raw))
	}
	for _, key := range []string{"command", "pattern", "path", "glob", "id", "question", "summary"} {
		if v, ok := m[key].(string); ok {
			if key == "pattern" && m["path"] != nil {
				v += fmt.Sprintf(" in %v", m["path"])
			}
			if key == "question" && m["copy"] == true {
				v = "in a copy: " + v
			}
			return short(v)
		}
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&b, "%s=%v ", k, m[k])
		if b.Len() > maxShort {
			break
		}
	}
	return short(b.String())
}
