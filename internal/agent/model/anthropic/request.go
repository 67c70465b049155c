package anthropic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
)

// outputAsk goes behind the system text of a request for a structured answer.
const outputAsk = "\n\nAnswer with exactly one call of the tool %NAME%. Write no other text."

func outputName(req model.Request) string {
	if req.Output == nil {
		return ""
	}
	return req.Output.Name
}

// params turns a request into the API's words.
func (m *Model) params(req model.Request) (sdk.MessageNewParams, error) {
	p := sdk.MessageNewParams{Model: sdk.Model(m.cfg.Model), MaxTokens: int64(m.cfg.MaxTokens)}
	if req.MaxTokens > 0 {
		p.MaxTokens = int64(req.MaxTokens)
	}
	if req.Temperature != nil {
		p.Temperature = sdk.Float(*req.Temperature)
	}
	tools := req.Tools
	system := req.System
	if out := req.Output; out != nil {
		// The last, so that the tools before it are the same prefix with and
		// without an output.
		tools = append(tools[:len(tools):len(tools)], model.Tool{
			Name: out.Name, Description: "Submit your answer, the " + out.Name + ".", Input: out.Schema,
		})
		system += string(bytes.ReplaceAll([]byte(outputAsk), []byte("%NAME%"), []byte(out.Name)))
	}
	for _, t := range tools {
		if !object(t.Input) {
			return p, api.Errorf(api.KindInvalid, "the schema of %s is not a JSON object", t.Name)
		}
		tool := &sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](t.Input)}
		if t.Description != "" {
			tool.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: tool})
	}
	// Tools come before the system text in the cached prefix, so that one mark
	// behind the last of both covers all.
	switch {
	case system != "":
		p.System = []sdk.TextBlockParam{{Text: system, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	case len(p.Tools) > 0:
		p.Tools[len(p.Tools)-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	p.Messages = messages(req.Messages)
	// A conversation continues: what was said so far is read from the cache by the
	// next call. A first question may be the only one and is not worth it, unless
	// there are tools: then an answer calls one.
	if n := len(p.Messages); n > 1 || len(req.Tools) > 0 {
		keepTurns(p.Messages)
	}
	return p, nil
}

// keepTurns marks the last two turns of the user, results of tools among them, for
// the cache. The later mark is what the next call reads; the earlier one finds
// what the call before has kept, however many blocks lie between, which a search
// back from a single mark does not.
func keepTurns(all []sdk.MessageParam) {
	marks := 0
	for _, m := range slices.Backward(all) {
		if m.Role != sdk.MessageParamRoleUser || len(m.Content) == 0 {
			continue
		}
		if cache := m.Content[len(m.Content)-1].GetCacheControl(); cache != nil {
			*cache = sdk.NewCacheControlEphemeralParam()
		}
		if marks++; marks == 2 {
			return
		}
	}
}

// messages turns turns into the API's messages. What comes from the user and
// from tools in one go is one message, as the API wants it.
func messages(turns []model.Message) []sdk.MessageParam {
	var out []sdk.MessageParam
	add := func(role sdk.MessageParamRole, blocks ...sdk.ContentBlockParamUnion) {
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, blocks...)
			return
		}
		out = append(out, sdk.MessageParam{Role: role, Content: blocks})
	}
	for _, t := range turns {
		switch t.Role {
		case model.RoleTool:
			add(sdk.MessageParamRoleUser, toolResult(t))
		case model.RoleAssistant:
			var blocks []sdk.ContentBlockParamUnion
			if t.Text != "" || len(t.Calls) == 0 {
				blocks = append(blocks, sdk.NewTextBlock(filled(t.Text)))
			}
			for _, c := range t.Calls {
				blocks = append(blocks, sdk.NewToolUseBlock(c.ID, input(c.Input), c.Name))
			}
			add(sdk.MessageParamRoleAssistant, blocks...)
		default:
			add(sdk.MessageParamRoleUser, sdk.NewTextBlock(filled(t.Text)))
		}
	}
	return out
}

// toolResult is the result of a call, with its images.
func toolResult(t model.Message) sdk.ContentBlockParamUnion {
	block := sdk.NewToolResultBlock(t.CallID, filled(t.Text), t.Failed)
	for _, x := range t.Images {
		image := sdk.NewImageBlockBase64(x.Type, base64.StdEncoding.EncodeToString(x.Data))
		block.OfToolResult.Content = append(block.OfToolResult.Content, sdk.ToolResultBlockParamContentUnion{OfImage: image.OfImage})
	}
	return block
}

// filled stands in for a text without a word, which the API refuses.
func filled(s string) string {
	if len(bytes.TrimSpace([]byte(s))) == 0 {
		return "(nothing)"
	}
	return s
}

// input is a call's input as the API takes it back: an object. What a model got
// wrong is shown to it as it was.
func input(raw json.RawMessage) any {
	if object(raw) {
		return raw
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("{}")
	}
	return map[string]string{"malformed": string(raw)}
}

// object reports whether raw is one JSON object.
func object(raw json.RawMessage) bool {
	return json.Valid(raw) && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}
