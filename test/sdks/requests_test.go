package sdks

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	claude "github.com/anthropics/anthropic-sdk-go"
	claudeoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/google/go-cmp/cmp"
	gpt "github.com/openai/openai-go/v3"
	gptoption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/anthropic"
	"hortus.dev/internal/agent/model/openai"
)

// recorder keeps the last request, and answers it with an error that nobody retries.
type recorder struct {
	path   string
	header http.Header
	body   any
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.path, r.header, r.body = req.URL.Path, req.Header, nil
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(nil)), Request: req}, json.Unmarshal(b, &r.body)
}

var (
	hot         = 0.5
	objects     = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)
	image       = model.Image{Type: "image/png", Data: []byte("picture")}
	imageBase64 = base64.StdEncoding.EncodeToString(image.Data)
	imageURL    = "data:image/png;base64," + imageBase64
	// conversation has all that a request can hold.
	conversation = model.Request{
		System: "You are <brief> & polite.", MaxTokens: 500, Temperature: &hot,
		Tools: []model.Tool{{Name: "read", Description: "Reads a file.", Input: objects}},
		Messages: []model.Message{
			{Role: model.RoleUser, Text: "What does main.go do?"},
			{Role: model.RoleAssistant, Text: "I look.", Calls: []model.Call{{ID: "c1", Name: "read", Input: json.RawMessage(`{"path":"main.go"}`)}}},
			{Role: model.RoleTool, CallID: "c1", Text: "package main", Images: []model.Image{image}},
			{Role: model.RoleAssistant, Text: "It does nothing."},
			{Role: model.RoleUser, Text: "Ok <then>."},
		},
	}
)

// compare wants two requests that differ in nothing that a server reads.
func compare(t *testing.T, ours, theirs recorder, headers ...string) {
	t.Helper()
	if ours.path != theirs.path {
		t.Errorf("we send to %q, the SDK to %q", ours.path, theirs.path)
	}
	for _, name := range append(headers, "Content-Type") {
		if got, want := ours.header.Get(name), theirs.header.Get(name); got != want || want == "" {
			t.Errorf("our %s is %q, that of the SDK %q", name, got, want)
		}
	}
	if diff := cmp.Diff(theirs.body, ours.body); diff != "" {
		t.Errorf("the body differs (- SDK, + ours):\n%s", diff)
	}
}

func TestAnthropicRequest(t *testing.T) {
	var ours, theirs recorder
	m := anthropic.New(anthropic.Config{Model: "claude-sonnet-4-5", BaseURL: "http://models.test", APIKey: "key", Base: &ours})
	if _, err := m.Generate(t.Context(), conversation, nil); err == nil {
		t.Fatal("no error")
	}
	cached := claude.NewCacheControlEphemeralParam()
	result := claude.NewToolResultBlock("c1", "package main", false)
	result.OfToolResult.Content = append(result.OfToolResult.Content, claude.ToolResultBlockParamContentUnion{
		OfImage: claude.NewImageBlockBase64("image/png", imageBase64).OfImage,
	})
	result.OfToolResult.CacheControl = cached
	last := claude.NewTextBlock("Ok <then>.")
	last.OfText.CacheControl = cached
	service := claude.NewMessageService(claudeoption.WithBaseURL("http://models.test/"), claudeoption.WithAPIKey("key"),
		claudeoption.WithHTTPClient(&http.Client{Transport: &theirs}), claudeoption.WithMaxRetries(0))
	stream := service.NewStreaming(t.Context(), claude.MessageNewParams{
		Model: "claude-sonnet-4-5", MaxTokens: 500, Temperature: claude.Float(hot),
		System: []claude.TextBlockParam{{Text: conversation.System, CacheControl: cached}},
		Tools: []claude.ToolUnionParam{{OfTool: &claude.ToolParam{
			Name: "read", Description: claude.String("Reads a file."), InputSchema: param.Override[claude.ToolInputSchemaParam](objects),
		}}},
		Messages: []claude.MessageParam{
			claude.NewUserMessage(claude.NewTextBlock("What does main.go do?")),
			claude.NewAssistantMessage(claude.NewTextBlock("I look."), claude.NewToolUseBlock("c1", json.RawMessage(`{"path":"main.go"}`), "read")),
			claude.NewUserMessage(result),
			claude.NewAssistantMessage(claude.NewTextBlock("It does nothing.")),
			claude.NewUserMessage(last),
		},
	})
	stream.Next()
	compare(t, ours, theirs, "X-Api-Key", "Anthropic-Version")
}

func gptOptions(r http.RoundTripper) []gptoption.RequestOption {
	return []gptoption.RequestOption{gptoption.WithBaseURL("http://models.test/v1/"), gptoption.WithAPIKey("key"),
		gptoption.WithHTTPClient(&http.Client{Transport: r}), gptoption.WithMaxRetries(0)}
}

func schemaOf(raw json.RawMessage) (m map[string]any) {
	_ = json.Unmarshal(raw, &m)
	return m
}

func ask(t *testing.T, way openai.API, req model.Request) recorder {
	t.Helper()
	var ours recorder
	m, err := openai.New(openai.Config{API: way, Model: "m", BaseURL: "http://models.test/v1", APIKey: "key", Base: &ours})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), req, nil); err == nil {
		t.Fatal("no error")
	}
	return ours
}

func TestChatRequest(t *testing.T) {
	req := conversation
	req.Output = &model.Output{Name: "Answer", Schema: objects}
	var theirs recorder
	service := gpt.NewChatCompletionService(gptOptions(&theirs)...)
	stream := service.NewStreaming(t.Context(), gpt.ChatCompletionNewParams{
		Model: "m", MaxTokens: gpt.Int(500), Temperature: gpt.Float(hot),
		StreamOptions: gpt.ChatCompletionStreamOptionsParam{IncludeUsage: gpt.Bool(true)},
		Messages: []gpt.ChatCompletionMessageParamUnion{
			gpt.SystemMessage(req.System),
			gpt.UserMessage("What does main.go do?"),
			{OfAssistant: &gpt.ChatCompletionAssistantMessageParam{
				Content: gpt.ChatCompletionAssistantMessageParamContentUnion{OfString: gpt.String("I look.")},
				ToolCalls: []gpt.ChatCompletionMessageToolCallUnionParam{{OfFunction: &gpt.ChatCompletionMessageFunctionToolCallParam{
					ID: "c1", Function: gpt.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "read", Arguments: `{"path":"main.go"}`},
				}}},
			}},
			gpt.ToolMessage("package main", "c1"),
			gpt.UserMessage([]gpt.ChatCompletionContentPartUnionParam{
				gpt.TextContentPart("Image of the result of c1:"), gpt.ImageContentPart(gpt.ChatCompletionContentPartImageImageURLParam{URL: imageURL}),
			}),
			gpt.AssistantMessage("It does nothing."),
			gpt.UserMessage("Ok <then>."),
		},
		Tools: []gpt.ChatCompletionToolUnionParam{gpt.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "read", Description: gpt.String("Reads a file."), Parameters: schemaOf(objects),
		})},
		ResponseFormat: gpt.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "Answer", Schema: schemaOf(objects), Strict: gpt.Bool(true)},
		}},
	})
	stream.Next()
	compare(t, ask(t, openai.Chat, req), theirs, "Authorization")
}

func TestResponsesRequest(t *testing.T) {
	req := conversation
	req.Output = &model.Output{Name: "Answer", Schema: objects}
	var theirs recorder
	service := responses.NewResponseService(gptOptions(&theirs)...)
	output := responses.ResponseInputItemParamOfFunctionCallOutput("package main")
	output.OfFunctionCallOutput.CallID = gpt.String("c1")
	output.OfFunctionCallOutput.Output = responses.ResponseInputItemFunctionCallOutputOutputUnionParam{
		OfResponseFunctionCallOutputItemArray: responses.ResponseFunctionCallOutputItemListParam{
			{OfInputText: &responses.ResponseInputTextContentParam{Text: "package main"}},
			{OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: gpt.String(imageURL)}},
		},
	}
	stream := service.NewStreaming(t.Context(), responses.ResponseNewParams{
		Model: "m", Store: gpt.Bool(false), MaxOutputTokens: gpt.Int(500), Temperature: gpt.Float(hot), Instructions: gpt.String(req.System),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage("What does main.go do?", responses.EasyInputMessageRoleUser),
			responses.ResponseInputItemParamOfMessage("I look.", responses.EasyInputMessageRoleAssistant),
			responses.ResponseInputItemParamOfFunctionCall(`{"path":"main.go"}`, "c1", "read"),
			output,
			responses.ResponseInputItemParamOfMessage("It does nothing.", responses.EasyInputMessageRoleAssistant),
			responses.ResponseInputItemParamOfMessage("Ok <then>.", responses.EasyInputMessageRoleUser),
		}},
		Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
			Name: "read", Description: gpt.String("Reads a file."), Parameters: schemaOf(objects), Strict: gpt.Bool(false),
		}}},
		Text: responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{
			OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "Answer", Schema: schemaOf(objects), Strict: gpt.Bool(true)},
		}},
	})
	stream.Next()
	compare(t, ask(t, openai.Responses, req), theirs, "Authorization")
}

func TestEmbeddingsRequest(t *testing.T) {
	var ours, theirs recorder
	e, err := openai.NewEmbedder(openai.Config{Model: "m", BaseURL: "http://models.test/v1", APIKey: "key", Base: &ours})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Embed(t.Context(), []string{"a", "b <c>"}); err == nil {
		t.Fatal("no error")
	}
	service := gpt.NewEmbeddingService(gptOptions(&theirs)...)
	if _, err := service.New(t.Context(), gpt.EmbeddingNewParams{Model: "m", Input: gpt.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b <c>"}}}); err == nil {
		t.Fatal("no error")
	}
	compare(t, ours, theirs, "Authorization")
}
