package repair

import (
	"fmt"
	"strings"

	"hortus.dev/internal/agent/model/offline/repair/edit"
)

// surround returns the text that an edit replaces and what replaces it, with as many
// lines around as make it stand only once in the file.
func surround(before, after string, e edit.Edit) (from, to string) {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	grown := len(b) - len(a)
	for around := 0; ; around++ {
		x, y := max(0, e.From-1-around), min(len(a), e.To+around)
		if around == 0 && (e.To < e.From || len(e.Lines) == 0) {
			continue // there must be something to find
		}
		from, to = strings.Join(a[x:y], "\n"), strings.Join(b[x:y+grown], "\n")
		if strings.Count(before, from) == 1 && strings.Count(after, to) == 1 || x == 0 && y == len(a) {
			return from, to
		}
	}
}

// summary returns what was changed and how it was found.
func (r *repairer) summary() string {
	var s strings.Builder
	for k, e := range r.done {
		was := strings.Split(r.was[k].Text, "\n")
		fmt.Fprintf(&s, "%s:%d: ", e.Path, e.From)
		old := strings.TrimSpace(strings.Join(was[e.From-1:e.To], " / "))
		now := make([]string, len(e.Lines))
		for i, l := range e.Lines {
			now[i] = strings.TrimSpace(l)
		}
		switch {
		case len(e.Lines) == 0:
			fmt.Fprintf(&s, "removed %q. ", old)
		case old == "":
			fmt.Fprintf(&s, "added %q. ", strings.Join(now, " / "))
		default:
			fmt.Fprintf(&s, "%q is now %q. ", old, strings.Join(now, " / "))
		}
		if e.Why != "" {
			fmt.Fprintf(&s, "Why: %s. ", e.Why)
		}
	}
	fmt.Fprintf(&s, "The change passes the tests but was not reviewed by a language model. %d edits were tried.", len(r.tried))
	return s.String()
}

// maxUnread is how many files that were not read a report names.
const maxUnread = 5

// unread names the files that were not read, and why.
func (r *repairer) unread() string {
	if len(r.skipped) == 0 {
		return ""
	}
	var names []string
	for _, f := range r.skipped[:min(len(r.skipped), maxUnread)] {
		why := "the other files fill the limit"
		if f.bytes > maxRead/2 {
			why = "too large, and the failure does not name it"
		}
		names = append(names, fmt.Sprintf("%s (%d KiB: %s)", f.path, (f.bytes+1023)>>10, why))
	}
	if n := len(r.skipped) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return " Not read: " + strings.Join(names, ", ") + "."
}

// failure returns what was tried, why it stopped, and what would help.
func (r *repairer) failure() string {
	var s strings.Builder
	if len(r.tried) == 0 {
		s.WriteString("no edit was tried")
	} else {
		lines := map[edit.Frame]bool{}
		for _, e := range r.tried {
			lines[edit.Frame{Path: e.Path, Line: e.From}] = true
		}
		fmt.Fprintf(&s, "none of the %d small edits that were tried in %d s makes the gate pass. They change operators, constants, names, arguments and statements in %d lines of %s",
			len(r.tried), r.effort.seconds, len(lines), filesOf(r.tried))
		if r.executed {
			s.WriteString(", all of them lines that the failing tests execute or that the error names")
		}
	}
	fmt.Fprintf(&s, ". It stopped because %s.", r.stopped)
	if fr := edit.Frames(r.gateRun.output, r.tree.root, r.source); len(fr) > 0 {
		fmt.Fprintf(&s, " The failure names %s:%d.", fr[0].Path, fr[0].Line)
	}
	s.WriteString(r.unread())
	s.WriteString(" The offline model repairs defects of one place only and writes no missing code. What helps: a hosted model (--model anthropic, --model openai), which understands the code")
	if n := len(r.tried); n > 0 && n < 40 {
		s.WriteString("; or a faster gate (--verify), for example one that runs only the failing test")
	}
	return s.String()
}
