package forge

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hortus.dev/internal/platform/lazyregexp"
)

// zeroWidthSpace inside a word prevents a forge from parsing the word as a mention, a
// reference or a command, and is invisible. Escaping is not enough: forges look for mentions
// in the rendered text, GitLab looks for closing keywords in the raw text, code included, and
// any forge may copy the body into a commit message.
const zeroWidthSpace = '\u200b'

// mode is the place of a text in the body.
type mode int

const (
	// prose is outside of code: everything that a forge may parse is neutralized.
	prose mode = iota
	// output is in a code block and should stay readable and searchable.
	output
	// command is in a code block and will be copied: change as little as possible.
	command
	// message is the message of a commit, which is plain text: only what a forge acts on is neutralized.
	message
)

var (
	// sequences are the control sequences of terminals.
	sequences = lazyregexp.New("\x1b\\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)")
	// closing are the keywords by which GitHub, GitLab and Gitea close or reopen issues.
	closing = lazyregexp.New(`(?i)\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?|reopen(?:s|ed|ing)?)\b`)
	// reference is what follows a keyword that closes an issue.
	reference = lazyregexp.New(`(?i)^:?\s+(?:issues?\s+)?\S*(?:#|!\d|://|\b[a-z][a-z0-9_]*-\d)`)
	// key is the key of an issue: PROJ-12, GH-7.
	key = lazyregexp.New(`\b(?:[A-Z][A-Z0-9_]+|gh)-\d`)
	// skip is what disables a pipeline in a commit message.
	skip = lazyregexp.New(`(?i)\[(?:skip|ci|no|actions)[ -]`)
	// pointer is what a closing keyword at the end of a text could be followed by later.
	pointer = lazyregexp.New(`^[:\s]*$`)
	// trailer is a line that git, a forge or a release tool reads as a field of a commit.
	trailer = lazyregexp.New(`(?i)^\W*(?:(?:[a-z]+[ -])+by|breaking[ -]changes?|release-as|change-id|hortus-[a-z-]+|depends-on|refs?|(?:closing|fixing|resolving)|(?:close|resolve)[sd]?|fixe[sd])\s*[:=]`)
	// mention is an @ that names a person or a group.
	mention = lazyregexp.New(`(^|[^\w])@+(\w)`)
	// action is a line that GitLab or a bot may take for a command.
	action = lazyregexp.New(`(?m)^[ \t]*/[A-Za-z_-]+(?:[ \t]|$)`)
)

// sanitize removes everything but printable characters and newlines: control sequences and
// invisible characters.
func sanitize(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	s = sequences.ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case r == '\n', r == '\r', r == '\v', r == '\f', r == '\u0085', r == '\u2028', r == '\u2029':
			return '\n'
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r): // the wide and narrow spaces
			return ' '
		}
		return -1 // controls, directions, invisible and private characters
	}, s)
}

// neutralize inserts zeroWidthSpace into a sanitized text.
func neutralize(s string, m mode) string {
	cuts := map[int]bool{} // offsets before which to insert one
	for _, at := range closing.FindAllStringIndex(s, -1) {
		after := s[at[1]:min(len(s), at[1]+400)]
		if m == prose || reference.MatchString(after) || m == message && pointer.MatchString(after) {
			cuts[at[0]+1] = true
		}
	}
	for _, at := range skip.FindAllStringIndex(s, -1) {
		cuts[at[0]+1] = true
	}
	if m != prose {
		for _, at := range action.FindAllStringIndex(s, -1) {
			cuts[at[0]+strings.IndexByte(s[at[0]:], '/')] = true
		}
	} else {
		for _, at := range key.FindAllStringIndex(s, -1) {
			cuts[at[1]-2] = true
		}
	}
	var b strings.Builder
	var before rune
	start := true // of a line
	for i, r := range s {
		if cuts[i] || needsBreak(s, i, before, r, start, m) {
			b.WriteRune(zeroWidthSpace)
		}
		b.WriteRune(r)
		start = r == '\n' || start && (r == ' ' || r == '\t')
		before = r
	}
	return b.String()
}

// needsBreak reports whether to insert one between before and r, which is at s[i:].
func needsBreak(s string, i int, before, r rune, start bool, m mode) bool {
	word := unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_'
	switch m {
	case command:
		return false
	case output, message:
		if m == message && (before == '#' || before == '!') {
			return unicode.IsDigit(r)
		}
		// user@host and name@1.2 are not mentions.
		if before != '@' || !word {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(s[:i-1])
		return i == 1 || !unicode.IsLetter(last) && !unicode.IsDigit(last) && last != '_'
	}
	switch before {
	case '@', '[':
		return !unicode.IsSpace(r)
	case '#', '!', '&', '~', '%', '$', '^':
		return word || r == '"' || r == '{'
	case ':':
		return r == '/'
	}
	return start && r == '/' ||
		r == '.' && len(s[:i]) >= 3 && strings.EqualFold(s[i-3:i], "www")
}

// truncateInput truncates a text that is much longer than the most bytes that are shown, to
// bound the work.
func truncateInput(s string, most int) (string, bool) {
	if most *= 8; len(s) > most {
		return s[:most], true
	}
	return s, false
}

// inline returns a line of Markdown that shows any text, of at most most bytes, for a
// paragraph or a cell of a table.
func inline(s string, most int) string {
	s, long := truncateInput(s, most)
	s = strings.Join(strings.Fields(sanitize(s)), " ")
	out, cut := escape(neutralize(s, prose), most)
	if cut || long {
		out += " ..."
	}
	return out
}

// escape escapes a line, up to most bytes.
func escape(line string, most int) (out string, cut bool) {
	var b strings.Builder
	for i, r := range line {
		piece := string(r)
		switch r {
		case '<':
			piece = "&lt;"
		case '>':
			piece = "&gt;"
		case '&':
			piece = "&amp;"
		case '|':
			piece = "&vert;"
		case '\\':
			piece = "&bsol;"
		case '`':
			piece = "&grave;"
		case '*', '_', '[', ']', '#', '~', '$', '{', '}':
			piece = `\` + piece
		case '-', '+', '=':
			if strings.Trim(line[:i], " \u00a0"+string(zeroWidthSpace)) == "" {
				piece = `\` + piece
			}
		case '.', ')':
			if n := strings.TrimLeft(line[:i], " \u00a0"); n != "" && strings.Trim(n, "0123456789"+string(zeroWidthSpace)) == "" {
				piece = `\` + piece
			}
		case '\t':
			piece = " "
		}
		if b.Len()+len(piece) > most {
			return b.String(), true
		}
		b.WriteString(piece)
	}
	return b.String(), false
}

// quote returns a quotation of a text of several lines, of about most bytes; empty if
// nothing of the text is printable.
func quote(s string, most int) string {
	var b strings.Builder
	s, long := truncateInput(s, most)
	if s = neutralize(strings.Trim(sanitize(s), "\n \t"), prose); s == "" {
		return ""
	}
	blank := false
	for _, line := range strings.Split(s, "\n") {
		line = strings.TrimRight(line, " \t")
		body := strings.TrimLeft(line, " \t")
		if body == "" {
			if !blank {
				b.WriteString(">\n")
			}
			blank = true
			continue
		}
		blank = false
		indent := min(len(line)-len(body), 12)
		text, cut := escape(body, most-b.Len()-2*indent-8)
		b.WriteString("> " + strings.Repeat("\u00a0", indent) + text)
		if cut || most-b.Len() < 40 {
			b.WriteString(" ...")
			long = true
			break
		}
		b.WriteString("  \n")
	}
	if long {
		b.WriteString("\n>\n> (cut here)\n")
	}
	return b.String()
}

// longestRun is the maximum number of consecutive backticks that a block keeps.
const longestRun = 8

var runs = lazyregexp.New("`{8}")

// block returns a code block that its text cannot end.
func block(s string, m mode) string {
	s = neutralize(strings.Trim(sanitize(s), "\n"), m)
	s = runs.ReplaceAllString(s, "$0"+string(zeroWidthSpace))
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "text\n" + s + "\n" + fence + "\n"
}

// tail returns the end of a text, at most lines lines and most bytes, each line at most
// width bytes, and how many lines it omits.
func tail(s string, lines, most, width int) (string, int) {
	before := 0
	if cut := len(s) - 16*most; cut > 0 {
		before, s = strings.Count(s[:cut], "\n"), s[cut:]
	}
	s = strings.Trim(sanitize(s), "\n")
	all := strings.Split(s, "\n")
	var kept []string
	size := 0
	for i := len(all) - 1; i >= 0 && len(kept) < lines; i-- {
		line := all[i]
		if len(line) > width {
			line = strings.ToValidUTF8(line[:width], "") + " ..."
		}
		if size += len(line) + 1; size > most {
			break
		}
		kept = append(kept, line)
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	return strings.Join(kept, "\n"), before + len(all) - len(kept)
}

// MaxSubject is the maximum length of the first line of a commit's message, in characters.
const MaxSubject = 72

// Subject returns a safe first line of a commit's message for any text: its first line, of at most [MaxSubject] characters,
// without mentions, closing keywords, commands for pipelines, and the marks of Markdown around it. It is empty if nothing is left,
// or if the line is a field such as Signed-off-by.
func Subject(s string) string {
	s, _ = truncateInput(s, 512)
	s, _, _ = strings.Cut(strings.TrimSpace(sanitize(s)), "\n")
	if trailer.MatchString(s) {
		return ""
	}
	s = strings.Trim(mention.ReplaceAllString(s, "$1$2"), "#*>- \t")
	for len(s) > 1 && s[0] == s[len(s)-1] && strings.IndexByte("`\"'*", s[0]) >= 0 {
		s = s[1 : len(s)-1]
	}
	s = withoutDraft(s)
	s = strings.TrimRight(strings.Join(strings.Fields(neutralize(s, message)), " "), ".")
	if all := []rune(s); len(all) > MaxSubject {
		s = string(all[:MaxSubject-3])
		if i := strings.LastIndexByte(s, ' '); i > MaxSubject/2 {
			s = s[:i]
		}
		s = strings.TrimRight(s, " ,;:.-") + "..."
	}
	if strings.IndexFunc(s, unicode.IsLetter) < 0 {
		return ""
	}
	return s
}

// Message returns a safe text of a commit's message, of at most most bytes: without mentions, closing keywords, commands for
// pipelines, and lines that are fields such as Signed-off-by.
func Message(s string, most int) string {
	s, _ = truncateInput(s, most)
	lines := strings.Split(sanitize(s), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return trailer.MatchString(line) })
	s = neutralize(strings.TrimSpace(strings.Join(lines, "\n")), message)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + " [truncated]"
	}
	return s
}

// Title returns a safe title for any text: one line of at most [MaxTitle] characters without
// a prefix for drafts, mentions or closing keywords. It may be empty.
func Title(s string) string {
	s = neutralize(withoutDraft(strings.Join(strings.Fields(sanitize(s)), " ")), message)
	if utf8.RuneCountInString(s) > MaxTitle {
		s = strings.TrimSpace(string([]rune(s)[:MaxTitle-3])) + "..."
	}
	return s
}

// withoutDraft removes the prefixes of drafts.
func withoutDraft(s string) string {
	for again := true; again; {
		again = false
		for _, p := range drafts {
			if len(s) >= len(p) && strings.EqualFold(s[:len(p)], p) {
				s, again = strings.TrimSpace(s[len(p):]), true
			}
		}
	}
	return s
}

// drafts are the prefixes of drafts at GitLab and Gitea.
var drafts = []string{"Draft:", "[Draft]", "(Draft)", "WIP:", "[WIP]"}
