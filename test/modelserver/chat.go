package modelserver

import "cmp"

func openaiError(_ int, class, text string) any {
	class = cmp.Or(class, "server_error")
	return obj{"error": obj{"message": text, "type": class, "param": nil, "code": class}}
}

func (a answer) chatUsage() obj {
	return obj{
		"prompt_tokens": a.step.Input, "completion_tokens": a.step.OutputTokens,
		"total_tokens":          a.step.Input + a.step.OutputTokens,
		"prompt_tokens_details": obj{"cached_tokens": a.step.Cached},
	}
}

func (a answer) chatFinish() string {
	switch {
	case a.step.Stop == "length":
		return "length"
	case a.step.Stop == "refusal":
		return "content_filter"
	case a.tool != "":
		return "tool_calls"
	}
	return "stop"
}

func (a answer) chatCall(arguments string) obj {
	return obj{"index": 0, "id": a.id("call"), "type": "function", "function": obj{"name": a.tool, "arguments": arguments}}
}

func chatWhole(a answer) any {
	msg := obj{"role": "assistant", "content": a.step.Body}
	if a.tool != "" {
		msg = obj{"role": "assistant", "content": nil, "tool_calls": []any{a.chatCall(a.step.Body)}}
	}
	return obj{
		"id": a.id("chatcmpl"), "object": "chat.completion", "created": 0, "model": a.model,
		"choices": []any{obj{"index": 0, "message": msg, "finish_reason": a.chatFinish()}}, "usage": a.chatUsage(),
	}
}

func chatStream(a answer) events {
	return func(yield func(event) bool) {
		chunk := func(weight int, choices []any, usage any) bool {
			doc := obj{"id": a.id("chatcmpl"), "object": "chat.completion.chunk", "created": 0, "model": a.model, "choices": choices}
			if usage != nil {
				doc["usage"] = usage
			}
			return yield(event{"", doc, weight})
		}
		delta := func(weight int, d obj, finish any) bool {
			return chunk(weight, []any{obj{"index": 0, "delta": d, "finish_reason": finish}}, nil)
		}
		first := obj{"role": "assistant", "content": a.step.Say}
		if a.tool != "" && a.step.Say == "" {
			first = obj{"role": "assistant", "content": nil}
		}
		if a.tool != "" {
			first["tool_calls"] = []any{a.chatCall("")}
		}
		if !delta(len(a.step.Say), first, nil) {
			return
		}
		for piece := range a.pieces {
			d := obj{"content": piece}
			if a.tool != "" {
				d = obj{"tool_calls": []any{obj{"index": 0, "function": obj{"arguments": piece}}}}
			}
			if !delta(len(piece), d, nil) {
				return
			}
		}
		for i, c := range a.step.Also {
			if !delta(len(c.Input), obj{"tool_calls": []any{obj{"index": i + 1, "id": a.alsoID("call", i), "type": "function",
				"function": obj{"name": c.Tool, "arguments": c.Input}}}}, nil) {
				return
			}
		}
		if !delta(0, obj{}, a.chatFinish()) {
			return
		}
		if a.usage && !chunk(0, []any{}, a.chatUsage()) {
			return
		}
		yield(event{})
	}
}
