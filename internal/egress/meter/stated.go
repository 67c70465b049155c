package meter

import (
	"strings"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/platform/price"
)

// answerUsage is what an answer says. Numbers of later events replace smaller ones: they are sums.
type answerUsage struct {
	model string
	any   bool // a number
	// Numbers by the names of their members.
	numbers [numbers]int64

	kind  string // of the event that is read
	stop  bool   // it has a reason why the answer ends
	final bool   // it has the number of tokens of the answer
	done  bool   // an event that ends the answer came

	last []byte // the data of the event, if it is short
	long bool
}

// The numbers that an answer may state.
const (
	input = iota
	output
	cached
	written
	kept
	toolPrompt
	thoughts
	total
	numbers
)

// member reads a member of the answer.
func (s *answerUsage) member(path string, v value) {
	if v.string {
		switch path {
		case "model", "message.model", "response.model", "modelVersion":
			if s.model == "" {
				s.model = v.text
			}
		case "type":
			s.kind = v.text
		case "delta.stop_reason":
			s.stop = true
		}
		return
	}
	rest, ok := strings.CutPrefix(path, "usageMetadata.")
	if !ok {
		rest, ok = strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(path, "message."), "response."), "usage.")
	}
	if n := numberOf(rest); ok && n >= 0 && v.text != "null" {
		s.any = true
		s.final = s.final || n == output
		s.numbers[n] = max(s.numbers[n], number(v))
	}
}

// numberOf returns which number a member of usage has, or -1.
func numberOf(name string) int {
	switch name {
	case "input_tokens", "prompt_tokens", "promptTokenCount":
		return input
	case "output_tokens", "completion_tokens", "candidatesTokenCount":
		return output
	case "cache_read_input_tokens", "input_tokens_details.cached_tokens", "prompt_tokens_details.cached_tokens", "cachedContentTokenCount":
		return cached
	case "cache_creation_input_tokens", "input_tokens_details.cache_write_tokens", "prompt_tokens_details.cache_write_tokens":
		return written
	case "cache_creation.ephemeral_1h_input_tokens":
		return kept
	case "toolUsePromptTokenCount":
		return toolPrompt
	case "thoughtsTokenCount":
		return thoughts
	case "totalTokenCount", "total_tokens":
		return total
	}
	return -1
}

// doneData is the last event of Chat Completions.
const doneData = "[DONE]"

// event reads a part of the data of an event.
func (s *answerUsage) event(b []byte) {
	if s.long = s.long || len(s.last)+len(b) > len(doneData); !s.long {
		s.last = append(s.last, b...)
	}
}

// endEvent ends an event. whole is whether its data was a JSON document.
func (s *answerUsage) endEvent(whole bool) {
	switch s.kind {
	case "message_stop", "response.completed", "response.incomplete", "response.failed":
		s.done = s.done || whole
	case "message_delta":
		s.done = s.done || whole && s.stop && s.final
	}
	s.done = s.done || !s.long && string(s.last) == doneData
	s.kind, s.stop, s.final, s.last, s.long = "", false, false, s.last[:0], false
}

// complete reports whether a stream has stated all that was used. That of Anthropic begins with
// the prompt and ends with what follows from the answer; the others have one number at their end,
// or in each event the sum so far.
func (s *answerUsage) complete(vendor secrets.Model, ended bool) bool {
	if vendor == secrets.Anthropic {
		return s.done
	}
	return s.done || ended
}

// tokens returns what was stated; ok is false if nothing was.
func (s *answerUsage) tokens(vendor secrets.Model) (t price.Tokens, ok bool) {
	n := &s.numbers
	t = price.Tokens{Input: n[input], Cached: n[cached], Written: n[written], Kept: n[kept], Output: n[output]}
	switch vendor {
	case secrets.Anthropic:
		t.Input += t.Cached + t.Written
	case secrets.Gemini:
		t.Input += n[toolPrompt]
		t.Output += n[thoughts]
		fallthrough
	default:
		t.Output = max(t.Output, n[total]-t.Input)
	}
	return t, s.any
}
