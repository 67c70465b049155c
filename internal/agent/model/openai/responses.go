package openai

import (
	"encoding/json"
	"net/http"

	"hortus.dev/internal/agent/model"
)

// responseRequest is the body of a call of the Responses API.
type responseRequest struct {
	Model           string          `json:"model"`
	Instructions    string          `json:"instructions,omitempty"`
	Input           []item          `json:"input"`
	Stream          bool            `json:"stream"`
	Store           bool            `json:"store"`
	Temperature     *float64        `json:"temperature,omitempty"`
	MaxOutputTokens int             `json:"max_output_tokens,omitempty"`
	Tools           []responsesTool `json:"tools,omitempty"`
	Text            *responsesText  `json:"text,omitempty"`
}

// item is a message, a call of a tool, or the result of one. Output is a text or a list of parts.
type item struct {
	Type      string  `json:"type,omitempty"`
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	CallID    string  `json:"call_id,omitempty"`
	Name      string  `json:"name,omitempty"`
	Arguments *string `json:"arguments,omitempty"`
	Output    any     `json:"output,omitempty"`
}

// part is a part of the result of a call: a text or an image.
type part struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	ImageURL string  `json:"image_url,omitempty"`
}

type responsesTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]any `json:"parameters"`
	Strict      bool           `json:"strict"`
}

type responsesText struct {
	Format schema `json:"format"`
}

func (m *Model) responsesBody(req model.Request) (responseRequest, error) {
	p := responseRequest{
		Model: m.cfg.Model, Instructions: req.System, Input: []item{}, Stream: true, Temperature: req.Temperature, MaxOutputTokens: m.maxTokens(req),
	}
	for _, t := range req.Messages {
		switch t.Role {
		case model.RoleTool:
			out := item{Type: "function_call_output", CallID: t.CallID, Output: result(t)}
			if len(t.Images) > 0 {
				out.Output = withImages(t)
			}
			p.Input = append(p.Input, out)
		case model.RoleAssistant:
			if t.Text != "" || len(t.Calls) == 0 {
				p.Input = append(p.Input, item{Role: "assistant", Content: &t.Text})
			}
			for _, c := range t.Calls {
				input := string(c.Input)
				p.Input = append(p.Input, item{Type: "function_call", CallID: c.ID, Name: c.Name, Arguments: &input})
			}
		default:
			p.Input = append(p.Input, item{Role: "user", Content: &t.Text})
		}
	}
	for _, t := range req.Tools {
		parameters, _, err := readSchema(t.Name, t.Input)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, responsesTool{Type: "function", Name: t.Name, Description: t.Description, Parameters: parameters})
	}
	if out := req.Output; out != nil {
		of, strict, err := readSchema(out.Name, out.Schema)
		if err != nil {
			return p, err
		}
		p.Text = &responsesText{schema{Type: "json_schema", Name: out.Name, Schema: of, Strict: strict}}
	}
	return p, nil
}

// withImages is the result of a call with its images.
func withImages(t model.Message) []part {
	said := result(t)
	parts := []part{{Type: "input_text", Text: &said}}
	for _, x := range t.Images {
		parts = append(parts, part{Type: "input_image", ImageURL: dataURL(x)})
	}
	return parts
}

// responsesEvent is one event of a stream, with what is used of all kinds of events.
type responsesEvent struct {
	Type        string `json:"type"`
	Delta       text   `json:"delta"`
	OutputIndex int64  `json:"output_index"`
	Item        struct {
		Type      string `json:"type"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments text   `json:"arguments"`
	} `json:"item"`
	Response struct {
		Usage struct {
			Input   int64 `json:"input_tokens"`
			Output  int64 `json:"output_tokens"`
			Details struct {
				Cached  int64 `json:"cached_tokens"`
				Written int64 `json:"cache_write_tokens"`
			} `json:"input_tokens_details"`
		} `json:"usage"`
		Error struct {
			Code    text `json:"code"`
			Message text `json:"message"`
		} `json:"error"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
	} `json:"response"`
	Code    text `json:"code"`
	Message text `json:"message"`
}

// takeResponses adds one event of the Responses API.
func takeResponses(data []byte, a *answer) error {
	var ev responsesEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return err
	}
	switch ev.Type {
	case "response.output_text.delta":
		a.addText(string(ev.Delta))
	case "response.refusal.delta":
		a.addRefusal(string(ev.Delta))
	case "response.output_item.added":
		if ev.Item.Type == "function_call" {
			a.call(ev.OutputIndex, ev.Item.CallID, ev.Item.Name)
		}
	case "response.function_call_arguments.delta":
		for _, c := range a.calls {
			if c.index == ev.OutputIndex {
				a.addInput(c, string(ev.Delta))
			}
		}
	case "response.output_item.done":
		// A server that does not stream a call's input sends it here.
		if ev.Item.Type == "function_call" {
			if c := a.call(ev.OutputIndex, ev.Item.CallID, ev.Item.Name); c != nil && c.input.Len() == 0 {
				a.addInput(c, string(ev.Item.Arguments))
			}
		}
	case "response.completed", "response.incomplete", "response.failed":
		u := ev.Response.Usage
		a.tokens.Input, a.tokens.Output = u.Input, u.Output
		a.tokens.Cached, a.tokens.Written = u.Details.Cached, u.Details.Written
		a.done = true
		switch {
		case ev.Type == "response.failed":
			e := ev.Response.Error
			a.failed = a.end.Status(http.StatusOK, string(e.Code), string(e.Message), nil)
		case ev.Type == "response.incomplete" && ev.Response.Incomplete.Reason == "content_filter":
			a.refused = true
		case ev.Type == "response.incomplete":
			a.length = true
		}
	case "error":
		a.done = true
		a.failed = a.end.Status(http.StatusOK, string(ev.Code), string(ev.Message), nil)
	default:
		// What a model thinks is not kept, and is bounded like the rest.
		a.grow(len(ev.Delta))
	}
	return nil
}
