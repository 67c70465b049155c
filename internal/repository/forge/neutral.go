package forge

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// breaker is a space without width. Standing inside a word, it keeps a forge from
// reading the word as a mention, a reference or a command, and people do not see
// it. Escaping is not enough for that: forges look for mentions in the text that
// is left after Markdown, GitLab looks for closing keywords in the raw text, code
// included, and any forge may copy the whole body into a commit message.
const breaker = '\u200b'

// mode says where a text will stand.
type mode int

const (
	// prose stands outside of code: everything is broken that a forge may follow.
	prose mode = iota
	// output stands in a code block; it should stay readable and to be searched.
	output
	// command stands in a code block and will be copied: as little as can be.
	command
)

var (
	// sequences are the control sequences of terminals.
	sequences = regexp.MustCompile("\x1b\\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)")
	// closing are the words with which GitHub, GitLab and Gitea close or reopen
	// issues.
	closing = regexp.MustCompile(`(?i)\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?|reopen(?:s|ed|ing)?)\b`)
	// reference is what follows such a word where it closes something.
	reference = regexp.MustCompile(`(?i)^:?\s+(?:issues?\s+)?\S*(?:#|!\d|://|\b[a-z][a-z0-9_]*-\d)`)
	// key is an issue of a tracker: PROJ-12, GH-7.
	key = regexp.MustCompile(`\b(?:[A-Z][A-Z0-9_]+|gh)-\d`)
	// skip is what keeps a pipeline from running, in the message of a commit.
	skip = regexp.MustCompile(`(?i)\[(?:skip|ci|no|actions)[ -]`)
	// action is a line that GitLab may take for a command, and bots anywhere.
	action = regexp.MustCompile(`(?m)^[ \t]*/[A-Za-z_-]+(?:[ \t]|$)`)
)

// clean makes a text of printable characters and newlines: what terminals,
// browsers and readers would act upon or not show is gone.
func clean(s string) string {
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

// defuse puts breakers into a clean text.
func defuse(s string, m mode) string {
	cuts := map[int]bool{} // offsets that get a breaker before them
	for _, at := range closing.FindAllStringIndex(s, -1) {
		if m == prose || reference.MatchString(s[at[1]:min(len(s), at[1]+400)]) {
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
		if cuts[i] || broken(s, i, before, r, start, m) {
			b.WriteRune(breaker)
		}
		b.WriteRune(r)
		start = r == '\n' || start && (r == ' ' || r == '\t')
		before = r
	}
	return b.String()
}

// broken says whether a breaker goes between before and r, which is at s[i:].
func broken(s string, i int, before, r rune, start bool, m mode) bool {
	word := unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_'
	switch m {
	case command:
		return false
	case output:
		// user@host and name@1.2 call nobody.
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

// shorten cuts what is far longer than the most bytes that will be shown of it, so
// that the work on a text is bounded too.
func shorten(s string, most int) (string, bool) {
	if most *= 8; len(s) > most {
		return s[:most], true
	}
	return s, false
}

// inline makes any text into one line of Markdown that shows it, of at most most
// bytes. It may stand in a paragraph or in a cell of a table.
func inline(s string, most int) string {
	s, long := shorten(s, most)
	s = strings.Join(strings.Fields(clean(s)), " ")
	out, cut := escape(defuse(s, prose), most)
	if cut || long {
		out += " ..."
	}
	return out
}

// escape makes a line show as it is, as far as most bytes reach.
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
			if strings.Trim(line[:i], " \u00a0"+string(breaker)) == "" {
				piece = `\` + piece
			}
		case '.', ')':
			if n := strings.TrimLeft(line[:i], " \u00a0"); n != "" && strings.Trim(n, "0123456789"+string(breaker)) == "" {
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

// quote shows a text of many lines as a quotation, of about most bytes. It is empty
// when nothing of the text can be shown.
func quote(s string, most int) string {
	var b strings.Builder
	s, long := shorten(s, most)
	if s = defuse(strings.Trim(clean(s), "\n \t"), prose); s == "" {
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

// longestRun is the most backticks in a row that a block keeps.
const longestRun = 8

var runs = regexp.MustCompile("`{8}")

// block shows a text as code that nothing in it can end.
func block(s string, m mode) string {
	s = defuse(strings.Trim(clean(s), "\n"), m)
	s = runs.ReplaceAllString(s, "$0"+string(breaker))
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "text\n" + s + "\n" + fence + "\n"
}

// tail is the end of a text: at most lines lines and most bytes, each line at most
// width bytes, and how many lines were left out.
func tail(s string, lines, most, width int) (string, int) {
	before := 0
	if cut := len(s) - 16*most; cut > 0 {
		before, s = strings.Count(s[:cut], "\n"), s[cut:]
	}
	s = strings.Trim(clean(s), "\n")
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

// Title makes any text into the title of a request: one line, at most [MaxTitle]
// characters, that is no draft by its beginning, calls nobody and closes nothing.
// It is empty if nothing is left.
func Title(s string) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	for again := true; again; {
		again = false
		for _, p := range drafts {
			if len(s) >= len(p) && strings.EqualFold(s[:len(p)], p) {
				s, again = strings.TrimSpace(s[len(p):]), true
			}
		}
	}
	s = defuse(s, prose)
	if utf8.RuneCountInString(s) > MaxTitle {
		s = strings.TrimSpace(string([]rune(s)[:MaxTitle-3])) + "..."
	}
	return s
}

// drafts are the beginnings by which GitLab and Gitea know a draft.
var drafts = []string{"Draft:", "[Draft]", "(Draft)", "WIP:", "[WIP]"}
