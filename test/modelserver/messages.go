package modelserver

import "encoding/json"

// obj is a JSON object.
type obj = map[string]any

func messagesError(_ int, class, text string) any {
	if class == "" {
		class = "api_error"
	}
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
		_ = json.Unmarshal([]byte(a.step.Body), &input) // what is no JSON cannot be sent as a whole
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
		block := obj{"type": "text", "text": ""}
		if a.tool != "" {
			block = obj{"type": "tool_use", "id": a.id("toolu"), "name": a.tool, "input": obj{}}
		}
		if !put("content_block_start", 0, obj{"index": 0, "content_block": block}) || !put("ping", 0, obj{}) {
			return
		}
		for piece := range a.pieces {
			delta := obj{"type": "text_delta", "text": piece}
			if a.tool != "" {
				delta = obj{"type": "input_json_delta", "partial_json": piece}
			}
			if !put("content_block_delta", len(piece), obj{"index": 0, "delta": delta}) {
				return
			}
		}
		_ = put("content_block_stop", 0, obj{"index": 0}) &&
			put("message_delta", 0, obj{
				"delta": obj{"stop_reason": a.messagesStop(), "stop_sequence": nil},
				"usage": obj{"output_tokens": a.step.OutputTokens},
			}) &&
			put("message_stop", 0, obj{})
	}
}
