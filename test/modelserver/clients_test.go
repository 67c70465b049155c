package modelserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/anthropic"
	"hortus.dev/internal/agent/model/hosted"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/test/modelserver"
)

// clients are our own; test/sdks has the vendors'.
var clients = map[string]func(base, key string, limits hosted.Limits) model.Model{
	"messages": func(base, key string, limits hosted.Limits) model.Model {
		return anthropic.New(anthropic.Config{BaseURL: base, APIKey: key, Limits: limits, KeyHint: "Set THE_KEY."})
	},
	"chat":      openaiClient(openai.Chat),
	"responses": openaiClient(openai.Responses),
}

func openaiClient(way openai.API) func(base, key string, limits hosted.Limits) model.Model {
	return func(base, key string, limits hosted.Limits) model.Model {
		m, err := openai.New(openai.Config{API: way, BaseURL: base, APIKey: key, Limits: limits, KeyHint: "Set THE_KEY."})
		if err != nil {
			panic(err)
		}
		return m
	}
}

// play starts a server and gives its address. In the end nothing may have gone
// against the scenario.
func play(t *testing.T, scenario string) string {
	t.Helper()
	s, err := modelserver.New([]byte(scenario))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.Close()
		for _, p := range s.Problems() {
			t.Error(p)
		}
	})
	return srv.URL
}

// each runs a test with every client.
func each(t *testing.T, scenario string, test func(t *testing.T, m model.Model)) {
	t.Helper()
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			base := play(t, scenario)
			if name != "messages" {
				base += "/v1"
			}
			test(t, client(base, "secret-key", hosted.Limits{}))
		})
	}
}

func ask(text string) model.Request {
	return model.Request{System: "You are the system.", Messages: []model.Message{{Role: model.RoleUser, Text: text}}}
}

var shape = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)

// generate asks, keeps the deltas, and wants success.
func generate(t *testing.T, m model.Model, req model.Request) (model.Response, string) {
	t.Helper()
	var deltas strings.Builder
	resp, err := m.Generate(t.Context(), req, func(d model.Delta) {
		deltas.WriteString(d.Text)
		if d.Call != nil {
			deltas.Write(d.Call.Input)
		}
	})
	if err != nil {
		t.Fatalf("%v (%s)", err, api.HintOf(err))
	}
	return resp, deltas.String()
}

func TestText(t *testing.T) {
	each(t, `
key: secret-key
-- hello --
expect: You are the system.
expect: hello?
usage: 1000 800 50

Good morning, Zoë: a longer answer than one piece holds.
`, func(t *testing.T, m model.Model) {
		resp, deltas := generate(t, m, ask("hello?"))
		want := "Good morning, Zoë: a longer answer than one piece holds."
		if resp.Message.Text != want || deltas != want {
			t.Errorf("text %q, deltas %q", resp.Message.Text, deltas)
		}
		if resp.Message.Role != model.RoleAssistant || resp.Stop != model.StopEnd {
			t.Errorf("role %s, stop %s", resp.Message.Role, resp.Stop)
		}
		u := resp.Usage
		if u.Requests != 1 || u.InputTokens != 1000 || u.CachedTokens != 800 || u.OutputTokens != 50 || u.Unpriced != 0 {
			t.Errorf("usage %+v", u)
		}
		if u.CostUSD <= 0 || u.CostUSD > 0.01 {
			t.Errorf("cost %v", u.CostUSD)
		}
	})
}

func TestOutput(t *testing.T) {
	each(t, `
-- answer --
output: Number
answer: output

{"n": 42}
`, func(t *testing.T, m model.Model) {
		req := ask("how much?")
		req.Output = &model.Output{Name: "Number", Schema: shape}
		resp, deltas := generate(t, m, req)
		if resp.Message.Text != `{"n": 42}` || deltas != resp.Message.Text || len(resp.Message.Calls) != 0 || resp.Stop != model.StopEnd {
			t.Errorf("%+v, deltas %q", resp, deltas)
		}
	})
}

// A model that writes its structured answer as text, or wraps it in prose, is
// heard: anyone who asked parses it.
func TestOutputAsText(t *testing.T) {
	each(t, "-- answer --\noutput: Number\n\n{\"n\": 43}\n", func(t *testing.T, m model.Model) {
		req := ask("how much?")
		req.Output = &model.Output{Name: "Number", Schema: shape}
		if resp, _ := generate(t, m, req); resp.Message.Text != `{"n": 43}` {
			t.Errorf("%+v", resp)
		}
	})
}

func TestBrokenOutput(t *testing.T) {
	each(t, `
-- broken --
output: Number
answer: output

{"n": 42, "m": [1, 2
-- right --
output: Number
answer: output
expect: {"n": 42, "m": [1, 2
expect: that is not JSON

{"n": 1}
`, func(t *testing.T, m model.Model) {
		req := ask("how much?")
		req.Output = &model.Output{Name: "Number", Schema: shape}
		resp, _ := generate(t, m, req)
		if resp.Message.Text != `{"n": 42, "m": [1, 2` {
			t.Fatalf("%+v", resp)
		}
		req.Messages = append(req.Messages, resp.Message, model.Message{Role: model.RoleUser, Text: "that is not JSON"})
		if resp, _ := generate(t, m, req); resp.Message.Text != `{"n": 1}` {
			t.Errorf("%+v", resp)
		}
	})
}

func TestTools(t *testing.T) {
	each(t, `
-- call --
expect: reads a file
call: read

{"path": "a.txt"}
-- malformed --
expect: the content
call: read

{"path": "b
-- end --
expect: {"path": "b
expect: that was no JSON

done
`, func(t *testing.T, m model.Model) {
		req := ask("read it")
		req.Tools = []model.Tool{{Name: "read", Description: "reads a file", Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}}
		resp, deltas := generate(t, m, req)
		if len(resp.Message.Calls) != 1 || resp.Stop != model.StopTools {
			t.Fatalf("%+v", resp)
		}
		c := resp.Message.Calls[0]
		if c.Name != "read" || c.ID == "" || string(c.Input) != `{"path": "a.txt"}` || deltas != string(c.Input) {
			t.Errorf("call %+v, deltas %q", c, deltas)
		}
		req.Messages = append(req.Messages, resp.Message, model.Message{Role: model.RoleTool, CallID: c.ID, Text: "the content"})
		resp, _ = generate(t, m, req)
		if len(resp.Message.Calls) != 1 || string(resp.Message.Calls[0].Input) != `{"path": "b` {
			t.Fatalf("a malformed call: %+v", resp)
		}
		req.Messages = append(req.Messages, resp.Message,
			model.Message{Role: model.RoleTool, CallID: resp.Message.Calls[0].ID, Text: "that was no JSON"})
		if resp, _ = generate(t, m, req); resp.Message.Text != "done" || resp.Stop != model.StopEnd {
			t.Errorf("%+v", resp)
		}
	})
}

func TestLength(t *testing.T) {
	each(t, "-- cut --\nstop: length\n\nonce upon a\n", func(t *testing.T, m model.Model) {
		if resp, _ := generate(t, m, ask("tell")); resp.Stop != model.StopLength || resp.Message.Text != "once upon a" {
			t.Errorf("%+v", resp)
		}
	})
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name, step string
		kind       api.Kind
		says, hint string
		wait       time.Duration
	}{
		{"rate", "status: 429\nclass: rate_limit_error\nheader: Retry-After: 7\n\nslow down", api.KindExhausted, "429 rate_limit_error: slow down", "", 7 * time.Second},
		{"rate in ms", "status: 429\nheader: Retry-After-Ms: 250\n\nslow down", api.KindExhausted, "429", "", 250 * time.Millisecond},
		{"quota", "status: 429\nclass: insufficient_quota\n\nno money", api.KindDenied, "no money", "credit", 0},
		{"overloaded", "status: 529\nclass: overloaded_error\n\nOverloaded", api.KindUnavailable, "529 overloaded_error: Overloaded", "", 0},
		{"internal", "status: 500\nclass: api_error\n\noops", api.KindUnavailable, "500", "", 0},
		{"gateway", "status: 502\n\nbad", api.KindUnavailable, "502", "", 0},
		{"unavailable", "status: 503\n\nlater", api.KindUnavailable, "503", "", 0},
		{"key", "status: 401\nclass: authentication_error\n\ninvalid x-api-key secret-key", api.KindUnauthenticated, "401 authentication_error: invalid x-api-key [key]", "Set THE_KEY.", 0},
		{"permission", "status: 403\nclass: permission_error\n\nno", api.KindDenied, "403", "permission", 0},
		{"model", "status: 404\nclass: not_found_error\n\nmodel: x", api.KindNotFound, "404", "--model", 0},
		{"request", "status: 400\nclass: invalid_request_error\n\nbad field", api.KindInvalid, "400 invalid_request_error: bad field", "", 0},
		{"cut", "cut: 20\n\nan answer that is cut off in its middle", api.KindUnavailable, "truncated", "", 0},
		{"fails inside", "cut: 20\nfail: overloaded_error\n\nan answer that is cut off in its middle", api.KindUnavailable, "overloaded_error: it broke in the middle", "", 0},
		{"wrong JSON on the wire", "answer: raw\n\nevent: message_start\ndata: {\"type\":\"message_st", api.KindUnavailable, "cannot parse the answer", "", 0},
		{"nothing", "answer: raw\n\n: nothing at all", api.KindUnavailable, "truncated", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, "-- error --\n"+tt.step+"\n", func(t *testing.T, m model.Model) {
				_, err := m.Generate(t.Context(), ask("hello"), nil)
				if err == nil {
					t.Fatal("no error")
				}
				if kind := api.KindOf(err); kind != tt.kind {
					t.Errorf("kind %s, want %s: %v", kind, tt.kind, err)
				}
				if !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%q does not say %q", err, tt.says)
				}
				if hint := api.HintOf(err); tt.hint != "" && !strings.Contains(hint, tt.hint) {
					t.Errorf("hint %q does not say %q", hint, tt.hint)
				}
				if strings.Contains(err.Error()+api.HintOf(err), "secret-key") {
					t.Errorf("the key shows: %v", err)
				}
				if wait, _ := model.RetryAfter(err); wait != tt.wait {
					t.Errorf("wait %s, want %s", wait, tt.wait)
				}
			})
		})
	}
}

func TestRefusal(t *testing.T) {
	each(t, "-- no --\nstop: refusal\n\nI will not\n", func(t *testing.T, m model.Model) {
		if _, err := m.Generate(t.Context(), ask("do it"), nil); api.KindOf(err) != api.KindDeclined {
			t.Errorf("%v", err)
		}
	})
}

// An endless answer ends at a bound, and the memory for it is bounded.
func TestEndless(t *testing.T) {
	each(t, "-- endless --\nendless: true\npiece: 4096\n\n"+strings.Repeat("and on ", 2000)+"\n", func(t *testing.T, m model.Model) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		resp, _ := generate(t, m, ask("go on"))
		runtime.GC()
		runtime.ReadMemStats(&after)
		if resp.Stop != model.StopLength || len(resp.Message.Text) > hosted.MaxAnswer || len(resp.Message.Text) < hosted.MaxAnswer/2 {
			t.Errorf("stop %s with %d bytes", resp.Stop, len(resp.Message.Text))
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8*hosted.MaxAnswer {
			t.Errorf("the heap grew by %d bytes", grown)
		}
		runtime.KeepAlive(resp)
	})
}

// One line that never ends is an event that is too large, not a large buffer.
func TestEndlessLine(t *testing.T) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			base := play(t, "-- line --\nanswer: raw\n\ndata: "+strings.Repeat("x", 300_000)+"\n")
			if name != "messages" {
				base += "/v1"
			}
			_, err := client(base, "k", hosted.Limits{Event: 100_000}).Generate(t.Context(), ask("go"), nil)
			if api.KindOf(err) != api.KindExhausted || !strings.Contains(err.Error(), "larger than 100000 bytes") {
				t.Errorf("%v", err)
			}
		})
	}
}

// A server that falls silent, and one that drips for ever, are left.
func TestTimes(t *testing.T) {
	for _, tt := range []struct {
		name, step string
		limits     hosted.Limits
		says       string
	}{
		{"silent before", "delay: 1h\n\nx", hosted.Limits{Idle: time.Second}, "no data for 1s"},
		{"silent within", "pace: 1h\n\nx", hosted.Limits{Idle: time.Second}, "no data for 1s"},
		{"dripping", "pace: 5ms\nendless: true\n\nx", hosted.Limits{Whole: time.Second}, "incomplete after 1s"},
	} {
		for name, client := range clients {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				// Long enough for the request to reach the server on a busy machine.
				base := play(t, "-- slow --\n"+tt.step+"\n")
				if name != "messages" {
					base += "/v1"
				}
				_, err := client(base, "k", tt.limits).Generate(t.Context(), ask("go"), nil)
				if api.KindOf(err) != api.KindTimeout || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

func TestCanceled(t *testing.T) {
	each(t, "-- endless --\nendless: true\npace: 1ms\n\nx\n", func(t *testing.T, m model.Model) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := m.Generate(ctx, ask("go"), func(model.Delta) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
