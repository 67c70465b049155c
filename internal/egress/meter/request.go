package meter

import (
	"net/http"
	"strconv"
	"strings"

	"hortus.dev/api/secrets"
)

const (
	// maxInput is the maximum of an estimated prompt: no model takes more.
	maxInput = 2_000_000
	// usualOutput is the maximum of the answer to a request that states none, in tokens.
	usualOutput = 32_768
	// maxOutput is the maximum of an estimated answer to such a request.
	maxOutput = 131_072
	// keptInput is the estimated prompt of a request that refers to what the server keeps.
	keptInput = 400_000
	// maxNumber is the maximum of a number that is read.
	maxNumber = 1 << 40
	// maxModel is the maximum size of the name of a model that is recorded, in bytes.
	maxModel = 128
)

// kind is what a request makes a model do.
type kind uint8

const (
	generates kind = iota
	reads          // it has a prompt and no answer in tokens
	free           // no tokens
)

// kindOf returns the kind of a request. A path that is not known generates.
func kindOf(method, path string) kind {
	if method != http.MethodPost {
		return free
	}
	for suffix, k := range map[string]kind{
		"/messages/count_tokens": free, "/responses/input_tokens": free, "/moderations": free, ":countTokens": free,
		"/embeddings": reads, ":embedContent": reads, ":batchEmbedContents": reads,
	} {
		if strings.HasSuffix(path, suffix) {
			return k
		}
	}
	return generates
}

// requestUsage is what a request says.
type requestUsage struct {
	model   string
	models  int // how many names of a model it has
	output  int64
	choices int64
	// background is whether the answer does not have what is generated, refers whether the prompt
	// has what the server keeps.
	background, refers bool
}

// take reads a member of a request.
func (a *requestUsage) take(vendor secrets.Model, path, member string, v value) {
	switch member {
	case "model":
		if v.string && (a.models == 0 || v.text != a.model) {
			a.model = v.text
			a.models++
		}
		return
	case "background":
		a.background = a.background || v.text != "false" && v.text != "null"
		return
	case "previous_response_id", "conversation", "conversation.id", "prompt.id", "cachedContent", "cached_content":
		a.refers = a.refers || v.text != "null" || v.string
		return
	case "n":
		a.choices = max(a.choices, number(v))
		return
	case "generationConfig.candidateCount", "generationConfig.candidate_count", "generation_config.candidateCount", "generation_config.candidate_count":
		if vendor == secrets.Gemini {
			a.choices = max(a.choices, number(v))
		}
		return
	}
	if states(vendor, path, member) {
		a.output = max(a.output, number(v))
	}
}

// states reports whether a member is the maximum of the answer in the API of a request.
func states(vendor secrets.Model, path, member string) bool {
	switch vendor {
	case secrets.Anthropic:
		return member == "max_tokens"
	case secrets.OpenAI:
		if strings.HasSuffix(path, "/responses") {
			return member == "max_output_tokens"
		}
		return member == "max_completion_tokens" || member == "max_tokens"
	}
	switch member {
	case "generationConfig.maxOutputTokens", "generationConfig.max_output_tokens", "generation_config.maxOutputTokens", "generation_config.max_output_tokens":
		return true
	}
	return false
}

// number returns a number that is not negative; 0 for what is none.
func number(v value) int64 {
	if v.string {
		return 0
	}
	n, err := strconv.ParseFloat(v.text, 64)
	if err != nil || !(n > 0) {
		return 0
	}
	return int64(min(n, maxNumber))
}

// named returns the model that a path names, as those of Gemini do.
func named(path string) string {
	_, rest, ok := strings.Cut(path, "/models/")
	if !ok {
		return ""
	}
	name, _, ok := strings.Cut(rest, ":")
	if !ok || strings.ContainsAny(name, "/%") {
		return ""
	}
	return name
}
