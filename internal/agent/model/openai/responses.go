package openai

import (
	"context"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"hortus.dev/internal/agent/model"
)

// askResponses asks over the Responses API.
func (m *Model) askResponses(ctx context.Context, req model.Request, a *answer) error {
	params, err := m.responsesParams(req)
	if err != nil {
		return err
	}
	stream := m.responses.NewStreaming(ctx, params)
	defer stream.Close()
	for !a.full && stream.Next() {
		m.take(stream.Current(), a)
	}
	return stream.Err()
}

// take adds one event of the Responses API.
func (m *Model) take(ev responses.ResponseStreamEventUnion, a *answer) {
	switch ev.Type {
	case "response.output_text.delta":
		a.addText(ev.Delta)
	case "response.refusal.delta":
		a.addRefusal(ev.Delta)
	case "response.output_item.added":
		if ev.Item.Type == "function_call" {
			a.call(ev.OutputIndex, ev.Item.CallID, ev.Item.Name)
		}
	case "response.function_call_arguments.delta":
		for _, c := range a.calls {
			if c.index == ev.OutputIndex {
				a.addInput(c, ev.Delta)
			}
		}
	case "response.output_item.done":
		// A server that does not stream a call's input sends it here.
		if ev.Item.Type == "function_call" {
			if c := a.call(ev.OutputIndex, ev.Item.CallID, ev.Item.Name); c != nil && c.input.Len() == 0 {
				a.addInput(c, ev.Item.Arguments.OfString)
			}
		}
	case "response.completed", "response.incomplete", "response.failed":
		u := ev.Response.Usage
		a.tokens.Input, a.tokens.Output = u.InputTokens, u.OutputTokens
		a.tokens.Cached, a.tokens.Written = u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens
		a.done = true
		switch {
		case ev.Type == "response.failed":
			e := ev.Response.Error
			a.failed = m.end.Status(http.StatusOK, string(e.Code), e.Message, nil)
		case ev.Type == "response.incomplete" && ev.Response.IncompleteDetails.Reason == "content_filter":
			a.refused = true
		case ev.Type == "response.incomplete":
			a.length = true
		}
	case "error":
		a.done = true
		a.failed = m.end.Status(http.StatusOK, ev.Code, ev.Message, nil)
	default:
		// What a model thinks is not kept, and is bounded like the rest.
		a.grow(len(ev.Delta))
	}
}

// withImages is the result of a call with its images.
func withImages(t model.Message) (out responses.ResponseInputItemFunctionCallOutputOutputUnionParam) {
	list := responses.ResponseFunctionCallOutputItemListParam{{OfInputText: &responses.ResponseInputTextContentParam{Text: result(t)}}}
	for _, x := range t.Images {
		list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: sdk.String(dataURL(x))}})
	}
	out.OfResponseFunctionCallOutputItemArray = list
	return out
}

func (m *Model) responsesParams(req model.Request) (responses.ResponseNewParams, error) {
	p := responses.ResponseNewParams{Model: m.cfg.Model, Store: sdk.Bool(false)}
	if req.Temperature != nil {
		p.Temperature = sdk.Float(*req.Temperature)
	}
	if n := m.maxTokens(req); n > 0 {
		p.MaxOutputTokens = sdk.Int(n)
	}
	if req.System != "" {
		p.Instructions = sdk.String(req.System)
	}
	var items responses.ResponseInputParam
	for _, t := range req.Messages {
		switch t.Role {
		case model.RoleTool:
			out := responses.ResponseInputItemParamOfFunctionCallOutput(result(t))
			out.OfFunctionCallOutput.CallID = sdk.String(t.CallID)
			if len(t.Images) > 0 {
				out.OfFunctionCallOutput.Output = withImages(t)
			}
			items = append(items, out)
		case model.RoleAssistant:
			if t.Text != "" || len(t.Calls) == 0 {
				items = append(items, responses.ResponseInputItemParamOfMessage(t.Text, responses.EasyInputMessageRoleAssistant))
			}
			for _, c := range t.Calls {
				items = append(items, responses.ResponseInputItemParamOfFunctionCall(string(c.Input), c.ID, c.Name))
			}
		default:
			items = append(items, responses.ResponseInputItemParamOfMessage(t.Text, responses.EasyInputMessageRoleUser))
		}
	}
	p.Input.OfInputItemList = items
	for _, t := range req.Tools {
		schema, _, err := readSchema(t.Name, t.Input)
		if err != nil {
			return p, err
		}
		f := responses.FunctionToolParam{Name: t.Name, Parameters: schema, Strict: sdk.Bool(false)}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &f})
	}
	if out := req.Output; out != nil {
		schema, strict, err := readSchema(out.Name, out.Schema)
		if err != nil {
			return p, err
		}
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
			Name: out.Name, Schema: schema, Strict: sdk.Bool(strict),
		}
	}
	return p, nil
}
