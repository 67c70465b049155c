package modelserver

import (
	"cmp"
	"encoding/json"
	"maps"
)

// obj is a JSON object.
type obj = map[string]any

func messagesError(_ int, class, text string) any {
	class = cmp.Or(class, "api_error")
	return obj{"type": "error", "error": obj{"type": class, "message": text}}
}

func (a answer) messagesUsage() obj {
	return obj{
		"input_tokens": a.step.Input - a.step.Cached, "cache_read_input_tokens": a.step.Cached,
		"cache_creation_input_tokens": 0, "output_tokens": 1,
	}
}

func (a answer) messagesStop() string {
	switch {
	case a.step.Stop == "length":
		return "max_tokens"
	case a.step.Stop == "refusal":
		return "refusal"
	case a.tool != "":
		return "tool_use"
	}
	return "end_turn"
}

func messagesWhole(a answer) any {
	content := []any{obj{"type": "text", "text": a.step.Body}}
	if a.tool != "" {
		var input any = obj{}
		_ = json.Unmarshal([]byte(a.step.Body), &input) // invalid JSON cannot be sent as a whole
		content = []any{obj{"type": "tool_use", "id": a.id("toolu"), "name": a.tool, "input": input}}
	}
	usage := a.messagesUsage()
	usage["output_tokens"] = a.step.OutputTokens
	return obj{
		"id": a.id("msg"), "type": "message", "role": "assistant", "model": a.model, "content": content,
		"stop_reason": a.messagesStop(), "stop_sequence": nil, "usage": usage,
	}
}

func messagesStream(a answer) events {
	return func(yield func(event) bool) {
		put := func(name string, weight int, data obj) bool {
			data["type"] = name
			return yield(event{name, data, weight})
		}
		if !put("message_start", 0, obj{"message": obj{
			"id": a.id("msg"), "type": "message", "role": "assistant", "model": a.model, "content": []any{},
			"stop_reason": nil, "stop_sequence": nil, "usage": a.messagesUsage(),
		}}) {
			return
		}
		n := 0
		block := func(start, delta obj, key string, pieces func(func(string) bool)) bool {
			if !put("content_block_start", 0, obj{"index": n, "content_block": start}) || n == 0 && !put("ping", 0, obj{}) {
				return false
			}
			for piece := range pieces {
				d := maps.Clone(delta)
				d[key] = piece
				if !put("content_block_delta", len(piece), obj{"index": n, "delta": d}) {
					return false
				}
			}
			n++
			return put("content_block_stop", 0, obj{"index": n - 1})
		}
		words := func(pieces func(func(string) bool)) bool {
			return block(obj{"type": "text", "text": ""}, obj{"type": "text_delta"}, "text", pieces)
		}
		call := func(c Call, id string, pieces func(func(string) bool)) bool {
			return block(obj{"type": "tool_use", "id": id, "name": c.Tool, "input": obj{}}, obj{"type": "input_json_delta"}, "partial_json", pieces)
		}
		if a.tool == "" && !words(a.pieces) || a.step.Say != "" && !words(one(a.step.Say)) || a.tool != "" && !call(Call{Tool: a.tool}, a.id("toolu"), a.pieces) {
			return
		}
		for i, c := range a.step.Also {
			if !call(c, a.alsoID("toolu", i), one(c.Input)) {
				return
			}
		}
		_ = put("message_delta", 0, obj{
			"delta": obj{"stop_reason": a.messagesStop(), "stop_sequence": nil},
			"usage": obj{"output_tokens": a.step.OutputTokens},
		}) &&
			put("message_stop", 0, obj{})
	}
}
