package loop

import (
	"fmt"
	"io"
	"strings"
)

// Bounds of what a first message says about earlier work, in bytes and lines.
const (
	maxEarlier  = 8 << 10 // of one task
	maxReply    = 16 << 10
	maxReplies  = 64 << 10 // together
	maxCallList = 100
)

// Reply is a question of an earlier task and a person's answer. Only the answer is
// from the person: everything else may hold text of the model or of the repository.
type Reply struct {
	// Summary is what the agent said of its work, Calls a list of its calls.
	Summary, Calls      string
	Diagnosis, Question string
	Answer              string
}

// replies writes the earlier work and the answers. The last answer always has its
// place; where all are too long, the oldest are left out.
func replies(out *strings.Builder, mark string, all []Reply) {
	if len(all) == 0 {
		return
	}
	out.WriteString("\nContinue earlier work on this request. Its files are in /workspace. Follow the user's replies. If two replies conflict, follow the later one.\n")
	var parts []string
	size := 0
	for i := len(all) - 1; i >= 0; i-- {
		var b strings.Builder
		r := all[i]
		var text []string
		for _, p := range []struct{ title, text string }{
			{"Tool calls:", r.Calls}, {"Summary:", r.Summary},
			{"Diagnosis:", r.Diagnosis}, {"Question:", r.Question},
		} {
			if p.text = strings.TrimSpace(p.text); p.text != "" {
				text = append(text, p.title+"\n"+ends(p.text, maxEarlier/2))
			}
		}
		fence(&b, mark, fmt.Sprintf("earlier work %d of %d", i+1, len(all)), ends(strings.Join(text, "\n"), maxEarlier))
		b.WriteString("Reply of the user:\n" + calm(ends(strings.TrimSpace(r.Answer), maxReply)) + "\n")
		if size += b.Len(); size > maxReplies && len(parts) > 0 {
			fmt.Fprintf(out, "[%d earlier replies omitted: size limit reached]\n", i+1)
			break
		}
		parts = append(parts, b.String())
	}
	for i := len(parts) - 1; i >= 0; i-- {
		out.WriteString(parts[i])
	}
}

// Calls lists the calls of a transcript in short forms, the last 100. What was read
// before an error is given too.
func Calls(transcript io.Reader) (string, error) {
	var lines []string
	at := map[string]int{} // the line of a call, by its identifier
	left := 0
	_, err := ReadTranscript(transcript, func(e Entry) error {
		if e.Agent != "" {
			return nil // the agent's own call tells of it
		}
		for _, c := range e.Calls {
			at[c.ID] = left + len(lines)
			lines = append(lines, "- "+short(c.Name)+" "+inputShort([]byte(c.Input)))
		}
		if i, ok := at[e.CallID]; ok && e.Kind == KindTool {
			delete(at, e.CallID)
			if i -= left; e.Failed && i >= 0 {
				lines[i] += " (failed)"
			}
		}
		if n := len(lines) - maxCallList; n > 0 {
			left, lines = left+n, lines[n:]
		}
		return nil
	})
	if left > 0 {
		lines = append([]string{fmt.Sprintf("- ... %d earlier calls", left)}, lines...)
	}
	return strings.Join(lines, "\n"), err
}
