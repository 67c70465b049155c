package acp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/acp"
)

// TestTurn: a turn with updates, requests of the agent and an answer, in order.
func TestTurn(t *testing.T) {
	var got, asked []string
	var outcome, refused rpc
	c := dial(t, acp.Config{
		Name: "hortus", Version: "9", Meta: map[string]any{"x": 1},
		Update: func(u acp.Update) {
			got = append(got, fmt.Sprintf("%s %s|%s|%s|%s|%s|%s|%s", u.Kind, u.Text, u.Call.ID, u.Call.Title, u.Call.Kind, u.Call.Status, u.Call.Input, u.Call.Output))
		},
		Asked: func(title, option string) { asked = append(asked, title+" "+option) },
	}, func(p *peer) {
		m := p.until("initialize")
		if s := string(m.Params); !strings.Contains(s, `"readTextFile":false`) || !strings.Contains(s, `"terminal":false`) || !strings.Contains(s, `"hortus"`) {
			t.Errorf("initialize with %s", s)
		}
		p.answer(m, `{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}},"agentInfo":{"name":"peer","version":"1.2"}}`)
		m = p.until("session/new")
		if s := string(m.Params); !strings.Contains(s, `"_meta":{"x":1}`) || !strings.Contains(s, `"cwd":"/workspace"`) {
			t.Errorf("session/new with %s", s)
		}
		p.answer(m, `{"sessionId":"s1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask"},{"id":"free"}]}}`)
		m = p.until("session/set_mode")
		if s := string(m.Params); !strings.Contains(s, `"modeId":"free"`) {
			t.Errorf("session/set_mode with %s", s)
		}
		p.answer(m, `null`)
		m = p.until("session/prompt")
		p.line("a warning that is no message")
		p.update("s1", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I begin"}}`)
		p.update("s1", `{"sessionUpdate":"tool_call","toolCallId":"c1","title":"Write","kind":"edit","status":"pending","rawInput":{"a": 1}}`)
		p.line(`{"jsonrpc":"2.0","id":"q1","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"title":"Write"},"options":[{"optionId":"al","kind":"allow_always"},{"optionId":"on","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}`)
		outcome, _ = p.next()
		p.line(`{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}`)
		refused, _ = p.next()
		p.update("s1", `{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"done"}},{"type":"diff","path":"/workspace/f"}]}`)
		p.update("s1", `{"sessionUpdate":"something_new"}`)
		p.line(`{"jsonrpc":"2.0","method":"_x/notification"}`)
		p.answer(m, `{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":2,"cachedReadTokens":5}}`)
	})
	s := begin(t, c)
	if err := c.SetMode(t.Context(), s.ID, "free"); err != nil {
		t.Fatal(err)
	}
	turn, err := c.Prompt(t.Context(), s.ID, "go")
	if err != nil || turn.Stop != acp.EndTurn || turn.Usage == nil || *turn.Usage != (acp.Usage{Input: 10, Output: 2, CachedRead: 5}) {
		t.Fatalf("%+v, %v", turn, err)
	}
	want := []string{"agent_message_chunk I begin||||||", `tool_call |c1|Write|edit|pending|{"a":1}|`, "tool_call_update |c1|||completed||done[changed /workspace/f]", "something_new |||||" + "|"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("updates:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if string(outcome.ID) != `"q1"` || !strings.Contains(string(outcome.Result), `"optionId":"on"`) || len(asked) != 1 || asked[0] != "Write on" {
		t.Errorf("the permission: %+v %s, %q", outcome, outcome.Result, asked)
	}
	if string(refused.ID) != "7" || refused.Error == nil || refused.Error.Code != -32601 {
		t.Errorf("the files of the client: %+v", refused)
	}
}

// TestPermissions: what is answered to requests for permissions.
func TestPermissions(t *testing.T) {
	for _, tt := range []struct{ params, want string }{
		{`{"options":[{"optionId":"a","kind":"reject_once"},{"optionId":"b","kind":"allow_always"}]}`, `"optionId":"b"`},
		{`{"options":[{"optionId":"a","kind":"reject_once"}]}`, `"outcome":"cancelled"`},
		{`{"options":[]}`, "-32602"},
		{`[]`, "-32602"},
	} {
		var got string
		c := dial(t, acp.Config{}, func(p *peer) {
			p.line(`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":` + tt.params + `}`)
			if p.in.Scan() {
				got = p.in.Text()
			}
		})
		<-c.Gone()
		c.Close()
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.params, got, tt.want)
		}
	}
}

// TestAgain: a session is loaded or resumed by its name.
func TestAgain(t *testing.T) {
	c := dial(t, acp.Config{}, func(p *peer) {
		for _, method := range []string{"session/load", "session/resume"} {
			m := p.until(method)
			if !strings.Contains(string(m.Params), `"sessionId":"old"`) {
				t.Errorf("%s with %s", method, m.Params)
			}
			p.answer(m, `null`)
		}
		m := p.until("session/load")
		p.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32000,"message":"Authentication required","data":{"message":"no key"}}}`)
	})
	for _, again := range []func(context.Context, string, string) (acp.Session, error){c.LoadSession, c.ResumeSession} {
		if s, err := again(t.Context(), "old", "/workspace"); err != nil || s.ID != "old" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if _, err := c.LoadSession(t.Context(), "old", "/workspace"); api.KindOf(err) != api.KindUnauthenticated || !strings.Contains(err.Error(), "no key") {
		t.Errorf("%v", err)
	}
}

// TestLateReplay: what an agent replays after its answer to session/load comes before LoadSession returns.
func TestLateReplay(t *testing.T) {
	var heard atomic.Int64
	c := dial(t, acp.Config{Quiet: 2 * time.Second, Update: func(acp.Update) { heard.Add(1) }}, func(p *peer) {
		p.answer(p.until("session/load"), `null`)
		for range 20 {
			p.update("old", `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a replay"}}`)
		}
		p.until("session/set_mode")
	})
	if _, err := c.LoadSession(t.Context(), "old", "/workspace"); err != nil || heard.Load() != 20 {
		t.Errorf("%d reports before it returned, %v", heard.Load(), err)
	}
}

// TestQuota: the tokens that an agent reports in the _meta of a turn count if it reports none where the protocol has them.
func TestQuota(t *testing.T) {
	for answer, want := range map[string]*acp.Usage{
		`{"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":300,"output_tokens":60}}}}`:                         {Input: 300, Output: 60},
		`{"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2},"_meta":{"quota":{"token_count":{"input_tokens":300}}}}`: {Input: 1, Output: 2},
		`{"stopReason":"end_turn","_meta":{"quota":{"token_count":{"input_tokens":-1,"output_tokens":60}}}}`:                          nil,
		`{"stopReason":"end_turn","_meta":{"quota":"none"}}`:                                                                          nil,
		`{"stopReason":"end_turn"}`: nil,
	} {
		c := dial(t, acp.Config{}, func(p *peer) { p.answer(p.until("session/prompt"), answer) })
		turn, err := c.Prompt(t.Context(), "s", "go")
		if err != nil || turn.Stop != acp.EndTurn || (turn.Usage == nil) != (want == nil) || want != nil && *turn.Usage != *want {
			t.Errorf("%s: %+v %+v, %v", answer, turn, turn.Usage, err)
		}
	}
}

// TestCancel: the end of a context cancels a turn, whether the agent ends it or not.
func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		obeys bool
		grace time.Duration
		stop  acp.StopReason
	}{{true, time.Hour, acp.Canceled}, {false, 10 * time.Millisecond, ""}} {
		ctx, cancel := context.WithCancel(t.Context())
		c := dial(t, acp.Config{Grace: tt.grace}, func(p *peer) {
			p.hello()
			m := p.until("session/prompt")
			cancel()
			if p.until("session/cancel").Method == "" {
				t.Error("the turn was not canceled")
			}
			if tt.obeys {
				p.answer(m, `{"stopReason":"cancelled"}`)
			}
			p.next() // until the client closes the connection
		})
		s := begin(t, c)
		if turn, err := c.Prompt(ctx, s.ID, "go"); !errors.Is(err, context.Canceled) || turn.Stop != tt.stop {
			t.Errorf("obeys %t: %+v, %v", tt.obeys, turn, err)
		}
	}
}

// TestHostile: an agent that exceeds a bound, or breaks the protocol, is left with the reason.
func TestHostile(t *testing.T) {
	flood := func(text string) func(p *peer) {
		return func(p *peer) {
			for p.line(text) {
			}
		}
	}
	for _, tt := range []struct {
		name  string
		serve func(p *peer)
		says  string
	}{
		{"a line without an end", func(p *peer) {
			for {
				if _, err := p.conn.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}, "more than 16777216 bytes"},
		{"noise", flood("npm warn something"), "more than 1000 lines"},
		{"requests without reading the answers", flood(`{"jsonrpc":"2.0","id":1,"method":"x"}`), "does not read"},
		{"a long id", flood(`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"x"}`), "an id of 302 bytes"},
		{"deep nesting", flood(`{"jsonrpc":"2.0","method":"session/update","params":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`), "more than 1000 lines"},
		{"another version", func(p *peer) {
			p.answer(p.until("initialize"), `{"protocolVersion":2}`)
			p.next()
		}, "version 2"},
		{"a wrong answer", func(p *peer) {
			p.answer(p.until("initialize"), `{"protocolVersion":"one"}`)
			p.next()
		}, "something else than the protocol says"},
		{"the end", func(p *peer) { p.next() }, "ended its output"},
		{"an error", func(p *peer) {
			m := p.until("initialize")
			p.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32603,"message":"` + strings.Repeat("e", 9000) + `"}}`)
			p.next()
		}, "refused initialize (-32603): eee"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, acp.Config{}, tt.serve)
			_, err := c.Initialize(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 5000 {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// TestSessionNames: the name of a session must be one.
func TestSessionNames(t *testing.T) {
	for _, tt := range []struct {
		id string
		ok bool
	}{{"s", true}, {strings.Repeat("s", 1024), true}, {"", false}, {strings.Repeat("s", 1025), false}} {
		c := dial(t, acp.Config{}, func(p *peer) {
			p.answer(p.until("session/new"), `{"sessionId":"`+tt.id+`"}`)
			p.next()
		})
		if _, err := c.NewSession(t.Context(), "/"); (err == nil) != tt.ok {
			t.Errorf("%d bytes: %v", len(tt.id), err)
		}
	}
}

// TestDies: an agent that ends in a turn ends the turn, and everything after it.
func TestDies(t *testing.T) {
	c := dial(t, acp.Config{}, func(p *peer) {
		p.hello()
		p.until("session/prompt")
	})
	s := begin(t, c)
	if _, err := c.Prompt(t.Context(), s.ID, "go"); api.KindOf(err) != api.KindUnavailable {
		t.Errorf("%v", err)
	}
	if _, err := c.Prompt(t.Context(), s.ID, "go"); api.KindOf(err) != api.KindUnavailable || c.Err() == nil {
		t.Errorf("%v", err)
	}
}

// TestLastAnswer: an answer counts that came just before the end of the connection.
func TestLastAnswer(t *testing.T) {
	for range 50 {
		c := dial(t, acp.Config{}, func(p *peer) {
			p.hello()
			p.answer(p.until("session/prompt"), `{"stopReason":"end_turn"}`)
		})
		s := begin(t, c)
		if turn, err := c.Prompt(t.Context(), s.ID, "go"); err != nil || turn.Stop != acp.EndTurn {
			t.Fatalf("%+v, %v", turn, err)
		}
	}
}
