package modelserver

import (
	"encoding/json"
	"net/http"
	"strings"
)

// geminiCall finds the model and the method in a path such as /v1beta/models/MODEL:generateContent.
func geminiCall(path string) (model string, stream, ok bool) {
	rest, ok := strings.CutPrefix(path, "beta/models/")
	if !ok {
		if rest, ok = strings.CutPrefix(path, "/models/"); !ok {
			return "", false, false
		}
	}
	model, method, _ := strings.Cut(rest, ":")
	switch method {
	case "generateContent":
		return model, false, true
	case "streamGenerateContent":
		return model, true, true
	}
	return "", false, false
}

// geminiStatus are the names of errors that Google's APIs use.
var geminiStatus = map[int]string{
	http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED",
	http.StatusNotFound: "NOT_FOUND", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusServiceUnavailable: "UNAVAILABLE",
}

func geminiError(status int, class, text string) any {
	name := geminiStatus[status]
	if name == "" {
		name = "INTERNAL"
	}
	if class != "" && class == strings.ToUpper(class) {
		name = class
	}
	return obj{"error": obj{"code": status, "message": text, "status": name}}
}

func (a answer) geminiUsage() obj {
	return obj{
		"promptTokenCount": a.step.Input, "cachedContentTokenCount": a.step.Cached, "candidatesTokenCount": a.step.OutputTokens,
		"totalTokenCount": a.step.Input + a.step.OutputTokens,
	}
}

func (a answer) geminiFinish() string {
	switch a.step.Stop {
	case "length":
		return "MAX_TOKENS"
	case "refusal":
		return "SAFETY"
	}
	return "STOP"
}

// geminiPart is a call of a tool. Calls are not sent in pieces: their input has to be JSON.
func geminiPart(id, tool, input string) obj {
	var args any = obj{}
	_ = json.Unmarshal([]byte(input), &args) // what is no JSON cannot be sent
	return obj{"functionCall": obj{"id": id, "name": tool, "args": args}}
}

func (a answer) geminiDoc(parts []any, last bool) obj {
	candidate := obj{"index": 0, "content": obj{"role": "model", "parts": parts}}
	doc := obj{"candidates": []any{candidate}, "modelVersion": a.model, "responseId": a.id("resp")}
	if last {
		candidate["finishReason"], doc["usageMetadata"] = a.geminiFinish(), a.geminiUsage()
	}
	return doc
}

// geminiCalls are the calls of an answer.
func (a answer) geminiCalls() (parts []any) {
	if a.tool != "" {
		parts = append(parts, geminiPart(a.id("call"), a.tool, a.step.Body))
	}
	for i, c := range a.step.Also {
		parts = append(parts, geminiPart(a.alsoID("call", i), c.Tool, c.Input))
	}
	return parts
}

func geminiWhole(a answer) any {
	if a.tool == "" {
		return a.geminiDoc([]any{obj{"text": a.step.Body}}, true)
	}
	return a.geminiDoc(a.geminiCalls(), true)
}

func geminiStream(a answer) events {
	return func(yield func(event) bool) {
		text := func(s string) bool {
			return yield(event{"", a.geminiDoc([]any{obj{"text": s}}, false), len(s)})
		}
		if a.step.Say != "" && !text(a.step.Say) {
			return
		}
		if a.tool != "" {
			yield(event{"", a.geminiDoc(a.geminiCalls(), true), len(a.step.Body)})
			return
		}
		for piece := range a.pieces {
			if !text(piece) {
				return
			}
		}
		yield(event{"", a.geminiDoc([]any{obj{"text": ""}}, true), 0})
	}
}
