package loop

import (
	"fmt"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

const (
	// Above full of the window the history is shortened, to less than roomy of it:
	// a large step, because each one empties the model's cache.
	full  = 0.75
	roomy = 0.5
	// fits is the part of the window that a request may fill.
	fits = 0.95
	// keptTurns is how many of the last answers stay as they are, with the results
	// of their calls.
	keptTurns = 4
	// maxSummary is the most of a summary that is kept, in bytes, and
	// summaryTokens what the model may write for one, at most an eighth of the
	// window.
	maxSummary    = 24 << 10
	summaryTokens = 4096
	// smallResult is the most of a result that the small model reads for a summary, in bytes.
	smallResult = 4 << 10
)

const summarize = `[Notice] The history has nearly reached the context limit. Write a summary of your work so far. It replaces every message between the request and your last few answers.

Answer with the summary as text. Do not call a tool. Write at most 1,500 words. Include:
- the request, and which parts are done
- the changed files, and what changed in each
- facts about the repository: paths, names, how to run the tests
- commands that failed, and why
- approaches that did not work
- the next steps

Example of a line: "src/parse.py: parse() now skips empty lines; tests: python3 -m unittest tests.test_parse"`

// compact shortens the history when it nears the model's window.
func (r *run) compact() {
	before := r.estimate()
	window := float64(r.cfg.Window)
	if float64(before) < full*window || before < r.size.again {
		return
	}
	tail := r.lastTurns(keptTurns)
	short := r.cutResults(r.history[:tail])
	how := "cut"
	// Guesses are compared with guesses, and what the model counted with its own.
	scale := float64(before) / float64(max(1, r.prefix()+guess(r.history)))
	size := func(h []model.Message) int64 { return int64(scale * float64(r.prefix()+guess(h))) }
	next, newest := append(short, r.history[tail:]...), r.newest
	text := ""
	if float64(size(next)) > roomy*window && tail > 1 {
		text, how = r.summary(next, before, size)
		if r.ended() {
			return
		}
		next, newest = r.shortened(text, tail, r.history[tail:])
	}
	// Where the last turns alone are too much, their results are cut as well.
	for most := 8 << 10; float64(size(next)) > full*window && most >= 256; most /= 2 {
		next = trim(next, most)
	}
	after := size(next)
	if after > before*9/10 {
		r.size.again = before + r.cfg.Window/10 // there is nothing to gain
		return
	}
	r.replace(next, before, after, how, text)
	r.newest = newest
}

// replace puts a shorter history in the place of the one that was.
func (r *run) replace(next []model.Message, before, after int64, how, text string) {
	r.history = next
	r.forget()
	// A history that could not be made much shorter is not tried again at once.
	r.size = sizes{again: after + r.cfg.Window/10}
	r.size.tokens, r.size.messages = after, len(next)
	r.note(Entry{Kind: KindCompact, Text: text, How: how, Before: before, After: after})
	r.emit(api.EventCompact, api.CompactEvent{Step: r.steps, TokensBefore: before, TokensAfter: after})
	r.restate()
}

// squeeze shortens a history whose request was refused, once: the window may be
// smaller than was said. It is false where the length cannot have been the reason.
func (r *run) squeeze(before int64) bool {
	if r.size.squeezed || float64(before) < roomy*float64(r.cfg.Window) {
		return false
	}
	tail := r.lastTurns(1)
	next := trim(append(r.cutResults(r.history[:tail]), r.history[tail:]...), 1<<10)
	after := r.prefix() + guess(next)
	if after > before*9/10 {
		return false
	}
	r.replace(next, before, after, "cut", "")
	r.size.squeezed = true
	return true
}

// lastTurns is where the last n answers begin, at least 1: the first message
// always stays.
func (l *Loop) lastTurns(n int) int {
	at := len(l.history)
	for i := len(l.history) - 1; i > 0 && n > 0; i-- {
		if l.history[i].Role == model.RoleAssistant {
			at = i
			n--
		}
	}
	return max(1, at)
}

// keptResult is the longest result or field of an input that is not cut, in bytes.
const keptResult = 400

// imageCut takes the place of an image that was cut.
const imageCut = "\n[image removed to save context; view it again if you need it]"

// cutResults copies messages with short references in the place of long results
// of tools, and of long fields of their inputs. The first message stays.
func (l *Loop) cutResults(all []model.Message) []model.Message {
	names := map[string]string{}
	out := append([]model.Message(nil), all...)
	for i := range out {
		m := &out[i]
		if m.Role == model.RoleAssistant {
			m.Calls = append([]model.Call(nil), m.Calls...)
			for j, c := range m.Calls {
				names[c.ID] = strings.TrimSpace(c.Name + " " + inputShort(c.Input))
				m.Calls[j].Input = cutInput(c.Input)
			}
		}
		if m.Images != nil {
			m.Images, m.Text = nil, m.Text+imageCut
		}
		if m.Role == model.RoleTool && len(m.Text) > keptResult {
			m.Text = fmt.Sprintf("[result of %s truncated to save context: %d bytes; it began with: %s]", names[m.CallID], len(m.Text), short(m.Text))
		}
	}
	return out
}

// cutInput shortens the long fields of an input. It stays an object.
func cutInput(raw []byte) []byte {
	var m map[string]any
	if len(raw) <= keptResult || strictJSON(raw, &m) != nil {
		return raw
	}
	for k, v := range m {
		switch s := v.(type) {
		case string:
			if len(s) > keptResult {
				m[k] = fmt.Sprintf("[truncated to save context: %d bytes]", len(s))
			}
		case map[string]any, []any:
			if n := len(mustText(s)); n > keptResult {
				m[k] = fmt.Sprintf("[truncated to save context: %d bytes]", n)
			}
		}
	}
	return mustText(m)
}

// trim bounds every result of a tool, and after that every other text but the
// first message's.
func trim(all []model.Message, most int) []model.Message {
	out := append([]model.Message(nil), all...)
	for i := range out {
		switch m := &out[i]; {
		case m.Role == model.RoleTool:
			if m.Images != nil {
				m.Images, m.Text = nil, m.Text+imageCut
			}
			m.Text = ends(m.Text, most)
		case i > 0:
			m.Text = ends(m.Text, 2*most)
		}
	}
	return out
}

// summary returns the text that takes the place of the middle: what the model writes
// about it, or a list of what was called where it writes nothing usable.
func (r *run) summary(short []model.Message, before int64, size func([]model.Message) int64) (text, how string) {
	room := min(summaryTokens, r.cfg.Window/8)
	limit := fits*float64(r.cfg.Window) - float64(room)
	// The history as it is was read into the cache of the loop's own model, and into no other; where it is too long
	// for one more question, the one with the cut results is asked about.
	asks := []question{{r.model, r.history}}
	if float64(before) > limit {
		asks[0].history = short
	}
	if r.cfg.Small != nil {
		asks = append([]question{{r.cfg.Small, trim(r.history, smallResult)}}, asks...)
	}
	for _, ask := range asks {
		h := ask.history
		if float64(size(h)) > limit {
			continue
		}
		req := r.request(ask.model, append(h[:len(h):len(h)], model.Message{Role: model.RoleUser, Text: summarize}))
		req.MaxTokens = int(room)
		resp, _, err := r.call(ask.model, req)
		if err != nil && r.gone() || r.spent(false) {
			return "", ""
		}
		if s := strings.TrimSpace(resp.Message.Text); err == nil && len(resp.Message.Calls) == 0 && len(s) > 40 {
			return "[Your summary of the work so far. It replaces the earlier messages.]\n" + ends(s, min(maxSummary, int(room)*bytesPerToken)), "summary"
		}
	}
	return r.digest(), "list"
}

// question is a history that a model is asked to summarize.
type question struct {
	model   model.Model
	history []model.Message
}

// digest lists what was called in the middle, for want of a summary.
func (r *run) digest() string {
	var lines []string
	failed := map[string]bool{}
	middle := r.history[1:r.lastTurns(keptTurns)]
	for _, m := range middle {
		failed[m.CallID] = failed[m.CallID] || m.Role == model.RoleTool && m.Failed
	}
	for _, m := range middle {
		for _, c := range m.Calls {
			line := "- " + c.Name + " " + inputShort(c.Input)
			if failed[c.ID] {
				line += " (failed)"
			}
			lines = append(lines, line)
		}
		if m.Role == model.RoleUser && !strings.HasPrefix(m.Text, "[Notice]") {
			lines = append(lines, "- message to you: "+short(m.Text))
		}
	}
	const most = 100
	more := ""
	if n := len(lines) - most; n > 0 {
		lines, more = lines[n:], fmt.Sprintf("- ... %d earlier calls\n", n)
	}
	return ends("[The history exceeded the context limit. Calls of the removed messages, without their results:]\n"+more+strings.Join(lines, "\n"), min(maxSummary, int(r.cfg.Window/8)*bytesPerToken))
}

const (
	// maxImages is the most images of one history, and maxImageBytes the most bytes of all of them.
	maxImages     = 20
	maxImageBytes = 10 << 20
	// imageTokens is what an image is guessed to cost: vendors reduce larger ones.
	imageTokens = 1600
)

// images returns those of a result that the model reads, with what the text adds about the others.
func (l *Loop) images(all []model.Image) (kept []model.Image, note string) {
	if len(all) == 0 {
		return nil, ""
	}
	if !model.ReadsImages(l.model) {
		return nil, fmt.Sprintf("\nThe model %s cannot read images. Inspect the file with shell.", short(l.model.Name()))
	}
	for _, x := range all {
		if l.pictures == maxImages || l.pictureBytes+len(x.Data) > maxImageBytes {
			return kept, fmt.Sprintf("\nThe limit of %d images with %d MiB is reached. The image is not shown.", maxImages, maxImageBytes>>20)
		}
		l.pictures++
		l.pictureBytes += len(x.Data)
		kept = append(kept, x)
	}
	return kept, ""
}

// blind copies messages without their images.
func blind(all []model.Message) []model.Message {
	out := append([]model.Message(nil), all...)
	for i := range out {
		out[i].Images = nil
	}
	return out
}

// unsee takes all images out of a history whose request was refused. It is false if there are none.
func (r *run) unsee() bool {
	found := false
	for i := range r.history {
		if m := &r.history[i]; m.Images != nil {
			m.Images, m.Text, found = nil, m.Text+"\n[image removed: the model's server did not accept the request]", true
		}
	}
	if found {
		r.note(Entry{Kind: KindNotice, Text: "The images were removed from the history: the model's server did not accept the request."})
	}
	return found
}
