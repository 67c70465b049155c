package openai

import (
	"encoding/json"

	"hortus.dev/internal/agent/model"
)

// completionRequest is the body of a call of the chat completions API.
type completionRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Temperature         *float64    `json:"temperature,omitempty"`
	MaxTokens           int         `json:"max_tokens,omitempty"`
	MaxCompletionTokens int         `json:"max_completion_tokens,omitempty"`
	Tools               []chatTool  `json:"tools,omitempty"`
	ResponseFormat      *chatFormat `json:"response_format,omitempty"`
}

// chatMessage is one turn. Content is a text, or a list of parts; nil is none.
type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// chatPart is a part of the content of a message: a text or an image.
type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *chatImage `json:"image_url,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitempty"`
		Parameters  map[string]any `json:"parameters"`
	} `json:"function"`
}

type chatFormat struct {
	Type       string `json:"type"`
	JSONSchema schema `json:"json_schema"`
}

// schema is a named JSON schema of an answer.
type schema struct {
	Type   string         `json:"type,omitempty"`
	Name   string         `json:"name"`
	Schema map[string]any `json:"schema"`
	Strict bool           `json:"strict"`
}

func (m *Model) chatBody(req model.Request) (completionRequest, error) {
	p := completionRequest{Model: m.cfg.Model, Messages: []chatMessage{}, Stream: true, Temperature: req.Temperature}
	p.StreamOptions.IncludeUsage = true
	if m.official {
		p.MaxCompletionTokens = m.maxTokens(req)
	} else {
		// The older name of the bound is the one that other servers know.
		p.MaxTokens = m.maxTokens(req)
	}
	if req.System != "" {
		p.Messages = append(p.Messages, chatMessage{Role: "system", Content: req.System})
	}
	// A result of a tool has no images here: they follow the results of the same answer.
	var images []chatPart
	show := func() {
		if len(images) > 0 {
			p.Messages = append(p.Messages, chatMessage{Role: "user", Content: images})
			images = nil
		}
	}
	for _, t := range req.Messages {
		if t.Role != model.RoleTool {
			show()
		}
		switch t.Role {
		case model.RoleTool:
			p.Messages = append(p.Messages, chatMessage{Role: "tool", Content: result(t), ToolCallID: t.CallID})
			for _, x := range t.Images {
				images = append(images, chatPart{Type: "text", Text: "Image of the result of " + t.CallID + ":"},
					chatPart{Type: "image_url", ImageURL: &chatImage{dataURL(x)}})
			}
		case model.RoleAssistant:
			msg := chatMessage{Role: "assistant"}
			if t.Text != "" || len(t.Calls) == 0 {
				msg.Content = t.Text
			}
			for _, c := range t.Calls {
				call := chatCall{ID: c.ID, Type: "function"}
				call.Function.Name, call.Function.Arguments = c.Name, string(c.Input)
				msg.ToolCalls = append(msg.ToolCalls, call)
			}
			p.Messages = append(p.Messages, msg)
		default:
			p.Messages = append(p.Messages, chatMessage{Role: "user", Content: t.Text})
		}
	}
	show()
	for _, t := range req.Tools {
		parameters, _, err := readSchema(t.Name, t.Input)
		if err != nil {
			return p, err
		}
		f := chatTool{Type: "function"}
		f.Function.Name, f.Function.Description, f.Function.Parameters = t.Name, t.Description, parameters
		p.Tools = append(p.Tools, f)
	}
	if out := req.Output; out != nil {
		of, strict, err := readSchema(out.Name, out.Schema)
		if err != nil {
			return p, err
		}
		p.ResponseFormat = &chatFormat{"json_schema", schema{Name: out.Name, Schema: of, Strict: strict}}
	}
	return p, nil
}

// takeChat adds one event of the chat completions API.
func takeChat(data []byte, a *answer) error {
	var chunk struct {
		Choices []struct {
			Index int64 `json:"index"`
			Delta struct {
				Content   text `json:"content"`
				Refusal   text `json:"refusal"`
				ToolCalls []struct {
					Index    int64 `json:"index"`
					ID       text  `json:"id"`
					Function struct {
						Name      text `json:"name"`
						Arguments text `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"delta"`
			FinishReason text `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
			Details    struct {
				Cached  int64 `json:"cached_tokens"`
				Written int64 `json:"cache_write_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(data, &chunk); err != nil {
		return err
	}
	if u := chunk.Usage; u.Prompt > 0 || u.Completion > 0 {
		a.tokens.Input, a.tokens.Output = u.Prompt, u.Completion
		a.tokens.Cached, a.tokens.Written = u.Details.Cached, u.Details.Written
	}
	for _, c := range chunk.Choices {
		if c.Index != 0 {
			continue // only one answer was requested
		}
		a.addText(string(c.Delta.Content))
		a.addRefusal(string(c.Delta.Refusal))
		for _, t := range c.Delta.ToolCalls {
			a.addInput(a.call(t.Index, string(t.ID), string(t.Function.Name)), string(t.Function.Arguments))
		}
		switch c.FinishReason {
		case "":
			continue
		case "length":
			a.length = true
		case "content_filter":
			a.refused = true
		}
		a.done = true
	}
	return nil
}
