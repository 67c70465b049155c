package modelserver

import "maps"

// responsesError returns OpenAI's error document. Inside a stream, its fields are at the
// top level, next to the type.
func responsesError(status int, class, text string) any {
	if status == 200 {
		return obj{"type": "error", "code": class, "message": text, "param": nil, "sequence_number": 0}
	}
	return openaiError(status, class, text)
}

func (a answer) responsesUsage() obj {
	return obj{
		"input_tokens": a.step.Input, "input_tokens_details": obj{"cached_tokens": a.step.Cached},
		"output_tokens": a.step.OutputTokens, "output_tokens_details": obj{"reasoning_tokens": 0},
		"total_tokens": a.step.Input + a.step.OutputTokens,
	}
}

// responsesItem returns the single item of an answer, with the body so far.
func (a answer) responsesItem(status, body string) obj {
	if a.tool != "" {
		return obj{"type": "function_call", "id": a.id("fc"), "call_id": a.id("call"), "name": a.tool, "arguments": body, "status": status}
	}
	content := []any{}
	if status == "completed" {
		content = []any{a.responsesPart(body)}
	}
	return obj{"type": "message", "id": a.id("msg"), "role": "assistant", "status": status, "content": content}
}

func (a answer) responsesPart(body string) obj {
	if a.step.Stop == "refusal" {
		return obj{"type": "refusal", "refusal": body}
	}
	return obj{"type": "output_text", "text": body, "annotations": []any{}}
}

func (a answer) response(status string, output []any, usage any) obj {
	doc := obj{
		"id": a.id("resp"), "object": "response", "created_at": 0, "model": a.model, "status": status,
		"output": output, "usage": usage, "error": nil, "incomplete_details": nil,
	}
	if status == "incomplete" {
		doc["incomplete_details"] = obj{"reason": "max_output_tokens"}
	}
	return doc
}

func (a answer) responsesStatus() string {
	if a.step.Stop == "length" {
		return "incomplete"
	}
	return "completed"
}

func responsesWhole(a answer) any {
	return a.response(a.responsesStatus(), []any{a.responsesItem("completed", a.step.Body)}, a.responsesUsage())
}

func responsesStream(a answer) events {
	return func(yield func(event) bool) {
		number := 0
		put := func(name string, weight int, data obj) bool {
			data["type"], data["sequence_number"] = name, number
			number++
			return yield(event{name, data, weight})
		}
		n := 0 // number of finished items
		at := func(data obj) obj {
			data["output_index"] = n
			if a.tool != "" {
				data["item_id"] = a.id("fc")
			} else {
				data["item_id"], data["content_index"] = a.id("msg"), 0
			}
			return data
		}
		if !put("response.created", 0, obj{"response": a.response("in_progress", []any{}, nil)}) ||
			!put("response.in_progress", 0, obj{"response": a.response("in_progress", []any{}, nil)}) {
			return
		}
		output := []any{}
		done := func(item obj) bool {
			output = append(output, item)
			n++
			return put("response.output_item.done", 0, obj{"output_index": n - 1, "item": item})
		}
		if a.step.Say != "" {
			said := a
			said.tool, said.step = "", &Step{Body: a.step.Say}
			item := said.responsesItem("completed", a.step.Say)
			if !put("response.output_item.added", 0, obj{"output_index": n, "item": said.responsesItem("in_progress", "")}) ||
				!put("response.output_text.delta", len(a.step.Say), obj{"output_index": n, "item_id": a.id("msg"), "content_index": 0, "delta": a.step.Say}) || !done(item) {
				return
			}
		}
		if !put("response.output_item.added", 0, obj{"output_index": n, "item": a.responsesItem("in_progress", "")}) {
			return
		}
		kind, whole := "response.output_text", "text"
		switch {
		case a.tool != "":
			kind, whole = "response.function_call_arguments", "arguments"
		case a.step.Stop == "refusal":
			kind, whole = "response.refusal", "refusal"
		}
		if a.tool == "" && !put("response.content_part.added", 0, at(obj{"part": a.responsesPart("")})) {
			return
		}
		for piece := range a.pieces {
			if !put(kind+".delta", len(piece), at(obj{"delta": piece})) {
				return
			}
		}
		if !put(kind+".done", 0, at(obj{whole: a.step.Body})) {
			return
		}
		if a.tool == "" && !put("response.content_part.done", 0, at(obj{"part": a.responsesPart(a.step.Body)})) {
			return
		}
		if !done(a.responsesItem("completed", a.step.Body)) {
			return
		}
		for i, c := range a.step.Also {
			item := obj{"type": "function_call", "id": a.alsoID("fc", i), "call_id": a.alsoID("call", i), "name": c.Tool, "arguments": "", "status": "in_progress"}
			whole := maps.Clone(item)
			whole["arguments"], whole["status"] = c.Input, "completed"
			if !put("response.output_item.added", 0, obj{"output_index": n, "item": item}) ||
				!put("response.function_call_arguments.delta", len(c.Input), obj{"output_index": n, "item_id": item["id"], "delta": c.Input}) || !done(whole) {
				return
			}
		}
		put("response."+a.responsesStatus(), 0, obj{"response": a.response(a.responsesStatus(), output, a.responsesUsage())})
	}
}
