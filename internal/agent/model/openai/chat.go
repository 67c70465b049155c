package openai

import (
	"context"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"hortus.dev/internal/agent/model"
)

// askChat asks over the chat completions API.
func (m *Model) askChat(ctx context.Context, req model.Request, a *answer) error {
	params, err := m.chatParams(req)
	if err != nil {
		return err
	}
	stream := m.chat.NewStreaming(ctx, params)
	defer stream.Close()
	for !a.full && stream.Next() {
		chunk := stream.Current()
		if u := chunk.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
			a.tokens.Input, a.tokens.Output = u.PromptTokens, u.CompletionTokens
			a.tokens.Cached, a.tokens.Written = u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens
		}
		for _, c := range chunk.Choices {
			if c.Index != 0 {
				continue // only one answer was requested
			}
			a.addText(c.Delta.Content)
			a.addRefusal(c.Delta.Refusal)
			for _, t := range c.Delta.ToolCalls {
				a.addInput(a.call(t.Index, t.ID, t.Function.Name), t.Function.Arguments)
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
	}
	return stream.Err()
}

func (m *Model) chatParams(req model.Request) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{
		Model:         shared.ChatModel(m.cfg.Model),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	if req.Temperature != nil {
		p.Temperature = sdk.Float(*req.Temperature)
	}
	switch n := m.maxTokens(req); {
	case n == 0:
	case m.official:
		p.MaxCompletionTokens = sdk.Int(n)
	default:
		// The older name of the bound is the one that other servers know.
		p.MaxTokens = sdk.Int(n)
	}
	if req.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(req.System))
	}
	// A result of a tool has no images here: they follow the results of the same answer.
	var images []sdk.ChatCompletionContentPartUnionParam
	show := func() {
		if len(images) > 0 {
			p.Messages = append(p.Messages, sdk.UserMessage(images))
			images = nil
		}
	}
	for _, t := range req.Messages {
		if t.Role != model.RoleTool {
			show()
		}
		switch t.Role {
		case model.RoleTool:
			p.Messages = append(p.Messages, sdk.ToolMessage(result(t), t.CallID))
			for _, x := range t.Images {
				images = append(images, sdk.TextContentPart("Image of the result of "+t.CallID+":"),
					sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: dataURL(x)}))
			}
		case model.RoleAssistant:
			msg := &sdk.ChatCompletionAssistantMessageParam{}
			if t.Text != "" || len(t.Calls) == 0 {
				msg.Content.OfString = sdk.String(t.Text)
			}
			for _, c := range t.Calls {
				msg.ToolCalls = append(msg.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
					OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
						ID: c.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Input)},
					},
				})
			}
			p.Messages = append(p.Messages, sdk.ChatCompletionMessageParamUnion{OfAssistant: msg})
		default:
			p.Messages = append(p.Messages, sdk.UserMessage(t.Text))
		}
	}
	show()
	for _, t := range req.Tools {
		schema, _, err := readSchema(t.Name, t.Input)
		if err != nil {
			return p, err
		}
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: schema}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if out := req.Output; out != nil {
		schema, strict, err := readSchema(out.Name, out.Schema)
		if err != nil {
			return p, err
		}
		p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: out.Name, Schema: schema, Strict: sdk.Bool(strict)},
		}
	}
	return p, nil
}
