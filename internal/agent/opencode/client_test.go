package opencode_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/acp"
)

// usual is a turn with two messages of the agent.
func usual(p *peer, _ string) {
	p.step(1, "tool-calls", says(10, "I begin"), calls(11, "pending"), calls(11, "running"), calls(11, "running"), calls(11, "completed"), calls(12, "error"))
	p.step(2, "stop", says(20, "Done"))
	p.rest()
}

// usually is what is heard of it.
var usually = []string{
	"agent_message_chunk|I begin", `tool_call||prt_11|T|execute|in_progress|{"command":"x"}`, `tool_call_update||prt_11|T|execute|completed|{"command":"x"}|out`,
	`tool_call||prt_12|T|execute|failed|{"command":"x"}|err`, "agent_message_chunk|Done",
}

// used is what it used.
var used = acp.Usage{Input: 20, Output: 6, CachedRead: 10, CachedWrite: 6}

// TestTurn: sessions, and a turn with updates, questions and an end.
func TestTurn(t *testing.T) {
	p := newPeer(t, func(p *peer, text string) {
		if text != "go" {
			t.Errorf("the message is %q", text)
		}
		p.line(": a comment\r\nevent: x\r\ndata: {\"type\":\"plugin.added\",\r\ndata: \"properties\":{}}\r\n\r\n")
		p.tell("permission.asked", `{"id":"per_1","sessionID":"ses_other"}`)
		p.tell("question.asked", `{"id":"que_1","sessionID":"`+theOne+`"}`)
		p.tell("message.part.updated", `{"sessionID":"ses_other","part":{"id":"prt_9","type":"text","text":"of another","time":{"end":1}}}`)
		usual(p, text)
	})
	h := &heard{}
	c := client(t, p.config(h))
	if v, err := c.Ready(t.Context()); v != "9" || err != nil {
		t.Fatal(v, err)
	}
	id, err := c.NewSession(t.Context())
	if err != nil || id != theOne {
		t.Fatal(id, err)
	}
	if err := c.FindSession(t.Context(), id); err != nil {
		t.Error(err)
	}
	for _, other := range []string{"ses_other", "", "../x", "ses_" + strings.Repeat("x", 300)} {
		if err := c.FindSession(t.Context(), other); api.KindOf(err) != api.KindNotFound {
			t.Errorf("%.20q: %v", other, err)
		}
	}
	turn, err := c.Prompt(t.Context(), id, "go")
	if err != nil || turn.Stop != acp.EndTurn || turn.Usage == nil || *turn.Usage != used {
		t.Errorf("%+v %+v, %v", turn, turn.Usage, err)
	}
	if !slices.Equal(h.all, usually) {
		t.Errorf("heard:\n%s", strings.Join(h.all, "\n"))
	}
	if p.called("POST /permission/per_1/reply") != 1 || p.called("POST /question/que_1/reject") != 1 {
		t.Errorf("the questions: %q", p.calls)
	}
	// The next turn has nothing of this one.
	h.all = nil
	p.work = func(p *peer, _ string) { p.step(3, "stop", says(30, "More")); p.rest() }
	turn, err = c.Prompt(t.Context(), id, "go on")
	if err != nil || *turn.Usage != (acp.Usage{Input: 10, Output: 3, CachedRead: 5, CachedWrite: 3}) || !slices.Equal(h.all, []string{"agent_message_chunk|More"}) {
		t.Errorf("%+v %+v, %v: %q", turn, turn.Usage, err, h.all)
	}

	wrong := p.config(h)
	wrong.Password = "wrong"
	if _, err := client(t, wrong).Ready(t.Context()); api.KindOf(err) != api.KindUnauthenticated {
		t.Errorf("with a wrong password: %v", err)
	}
}

// TestLost: what happens while there is no connection is reported once, in order, when there is one again; also if that is the
// end of the turn, or nothing comes as an event at all.
func TestLost(t *testing.T) {
	for name, work := range map[string]func(p *peer, text string){
		"nothing": usual,
		"between": func(p *peer, _ string) {
			again := p.again()
			p.drop()
			p.step(1, "tool-calls", says(10, "I begin"), calls(11, "pending"), calls(11, "running"), calls(11, "completed"), calls(12, "error"))
			<-again
			p.step(2, "stop", says(20, "Done"))
			p.rest()
		},
		"the end": func(p *peer, _ string) {
			p.step(1, "tool-calls", says(10, "I begin"), calls(11, "running"), calls(11, "completed"), calls(12, "error"))
			p.drop()
			p.step(2, "stop", says(20, "Done"))
			p.rest()
		},
		"no events": func(p *peer, _ string) {
			p.mu.Lock()
			p.streams = map[chan string]bool{}
			p.mu.Unlock()
			usual(p, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, h := newPeer(t, work), &heard{}
			cfg := p.config(h)
			cfg.Poll, cfg.Silence = 50*time.Millisecond, 200*time.Millisecond
			turn, err := client(t, cfg).Prompt(t.Context(), theOne, "go")
			if err != nil || turn.Stop != acp.EndTurn || *turn.Usage != used {
				t.Errorf("%+v %+v, %v", turn, turn.Usage, err)
			}
			// What was not seen running is only seen to end.
			got := slices.DeleteFunc(slices.Clone(h.all), func(s string) bool { return strings.Contains(s, "in_progress") })
			want := slices.DeleteFunc(slices.Clone(usually), func(s string) bool { return strings.Contains(s, "in_progress") })
			for i := range got {
				got[i] = strings.Replace(got[i], "tool_call_update", "tool_call", 1)
			}
			for i := range want {
				want[i] = strings.Replace(want[i], "tool_call_update", "tool_call", 1)
			}
			if !slices.Equal(got, want) {
				t.Errorf("heard:\n%s", strings.Join(h.all, "\n"))
			}
		})
	}
}

// TestManyLost: a long turn whose events were lost is read page by page.
func TestManyLost(t *testing.T) {
	const many = 23
	p := newPeer(t, func(p *peer, _ string) {
		p.drop()
		for n := range many {
			p.step(n, "stop", says(n+10, fmt.Sprint("text ", n)))
		}
		p.rest()
	})
	h := &heard{}
	cfg := p.config(h)
	cfg.Poll = 50 * time.Millisecond
	if turn, err := client(t, cfg).Prompt(t.Context(), theOne, "go"); err != nil || turn.Usage.Input != 10*many {
		t.Errorf("%+v %+v, %v", turn, turn.Usage, err)
	}
	for n := range many {
		if want := fmt.Sprint("agent_message_chunk|text ", n); len(h.all) != many || h.all[n] != want {
			t.Fatalf("%d updates: %q", len(h.all), h.all)
		}
	}
}

// TestSaidOnce: a message whose answer was lost is not said again; one that was not taken is an error.
func TestSaidOnce(t *testing.T) {
	for _, taken := range []bool{true, false} {
		p, h := newPeer(t, usual), &heard{}
		p.instead["POST /session/{id}/prompt_async"] = func(w http.ResponseWriter, r *http.Request) {
			if taken {
				p.take(r)
			}
			panic(http.ErrAbortHandler)
		}
		turn, err := client(t, p.config(h)).Prompt(t.Context(), theOne, "go")
		if n := p.called("POST /session/" + theOne + "/prompt_async"); n != 1 || (err == nil) != taken || taken && turn.Stop != acp.EndTurn {
			t.Errorf("taken %v: said %d times, %+v, %v", taken, n, turn, err)
		}
		if !taken && api.KindOf(err) != api.KindUnavailable {
			t.Errorf("%v", err)
		}
	}
}

// TestStops: the ends of a turn that the server says.
func TestStops(t *testing.T) {
	last := func(rest string) func(p *peer, _ string) {
		return func(p *peer, _ string) {
			p.put("msg_2", `{"id":"msg_2","sessionID":"`+theOne+`","role":"assistant",`+rest+`}`)
			p.tell("session.error", `{"sessionID":"`+theOne+`","error":{"name":"Other","data":{"message":"a failure"}}}`)
			p.rest()
		}
	}
	fails := func(name string) func(p *peer, _ string) {
		return last(`"time":{"completed":1},"error":{"name":"` + name + `","data":{"message":"a reason"}}`)
	}
	for name, tt := range map[string]struct {
		work func(p *peer, _ string)
		stop acp.StopReason
		kind api.Kind
		says string
	}{
		"stop":           {last(`"time":{"completed":1},"finish":"stop"`), acp.EndTurn, "", ""},
		"length":         {last(`"time":{"completed":1},"finish":"length"`), acp.MaxTokens, "", ""},
		"filter":         {last(`"time":{"completed":1},"finish":"content-filter"`), acp.Refusal, "", ""},
		"filter error":   {fails("ContentFilterError"), acp.Refusal, "", ""},
		"length error":   {fails("MessageOutputLengthError"), acp.MaxTokens, "", ""},
		"odd":            {last(`"time":{"completed":1},"finish":"error"`), "error", "", ""},
		"of the model":   {fails("APIError"), "", api.KindUnavailable, "APIError: a reason"},
		"of the key":     {fails("ProviderAuthError"), "", api.KindUnauthenticated, "a reason"},
		"by another":     {fails("MessageAbortedError"), "", api.KindConflict, "aborted"},
		"of the session": {last(`"time":{}`), "", api.KindUnavailable, "Other: a failure"},
		"nothing": {func(p *peer, _ string) {
			p.rest()
		}, "", api.KindInternal, "does nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			p, h := newPeer(t, tt.work), &heard{}
			cfg := p.config(h)
			cfg.Poll = 20 * time.Millisecond
			turn, err := client(t, cfg).Prompt(t.Context(), theOne, "go")
			if turn.Stop != tt.stop || api.KindOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%+v, %v", turn, err)
			}
		})
	}
}

// TestCancel: the end of a context aborts the turn, whether the server ends it or not, and what it used is counted.
func TestCancel(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPeer(t, func(p *peer, _ string) {
			p.step(1, "tool-calls", calls(10, "running"))
			<-p.aborted
		})
		if deaf {
			p.instead["POST /session/{id}/abort"] = func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		}
		h := &heard{}
		cfg := p.config(h)
		cfg.Grace = 50 * time.Millisecond
		if !deaf {
			cfg.Grace = time.Minute
		}
		cfg.Update = func(u acp.Update) {
			h.update(u)
			cancel()
		}
		turn, err := client(t, cfg).Prompt(ctx, theOne, "go")
		if !errors.Is(err, context.Canceled) || turn.Stop != "" || len(h.all) != 1 || p.called("POST /session/"+theOne+"/abort") != 1 {
			t.Errorf("deaf %v: %+v, %v, %q, %q", deaf, turn, err, h.all, p.calls)
		}
		if !deaf && turn.Usage.Input != 10 {
			t.Errorf("%+v", turn.Usage)
		}
		if deaf {
			close(p.aborted)
		}
		cancel()
	}
}

// TestBusy: what an earlier client left is ended before a message is said; if it does not end, the message is not said.
func TestBusy(t *testing.T) {
	for _, ends := range []bool{true, false} {
		p, h := newPeer(t, usual), &heard{}
		p.busy = true
		if !ends {
			p.instead["POST /session/{id}/abort"] = func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "true") }
		}
		cfg := p.config(h)
		cfg.Grace = 100 * time.Millisecond
		if ends {
			cfg.Grace = time.Minute
		}
		turn, err := client(t, cfg).Prompt(t.Context(), theOne, "go")
		if ends && (err != nil || turn.Stop != acp.EndTurn) || !ends && (api.KindOf(err) != api.KindConflict || p.called("POST /session/"+theOne+"/prompt_async") > 0) {
			t.Errorf("ends %v: %+v, %v", ends, turn, err)
		}
	}
}

// TestHostile: a server that exceeds a bound is left, with an error that says which. TestTurn is what it may do.
func TestHostile(t *testing.T) {
	write := func(text string, after bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, text)
			w.(http.Flusher).Flush()
			if after {
				<-r.Context().Done()
			}
		}
	}
	const hello = "data: {\"type\":\"server.connected\"}\n\n"
	endless := func(prefix string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, hello+prefix)
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
					return
				}
			}
		}
	}
	silently := func(p *peer, _ string) {}
	for name, tt := range map[string]struct {
		request string
		does    http.HandlerFunc
		kind    api.Kind
		says    string
	}{
		"an endless event":     {"GET /event", endless("data: "), api.KindExhausted, "more than 16777216 bytes"},
		"an endless line":      {"GET /event", endless(""), api.KindExhausted, "more than 16777216 bytes"},
		"a long event":         {"GET /event", write(hello+strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 17), true), api.KindExhausted, "more than 16777216 bytes"},
		"events of nobody":     {"GET /event", write(hello+strings.Repeat("data: {\n\n", 1001), true), api.KindInvalid, "more than 1000 events"},
		"no beginning":         {"GET /event", write("", true), api.KindUnavailable, "silent for"},
		"no events":            {"GET /event", write("<html>", false), api.KindUnavailable, "ended the events"},
		"another address":      {"GET /event", http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound).ServeHTTP, api.KindUnavailable, "(302)"},
		"not JSON":             {"GET /session/status", write("<html>", false), api.KindInvalid, "something else than its API says"},
		"other JSON":           {"GET /session/status", write("[1]", false), api.KindInvalid, "something else than its API says"},
		"a long answer":        {"GET /session/{id}/message", write(strings.Repeat(" ", 33<<20), false), api.KindExhausted, "more than 33554432 bytes"},
		"too many messages":    {"GET /session/{id}/message", write(`[{"info":{"id":"msg_1"}},{"info":{"id":"msg_2"}}]`, false), api.KindInvalid, "2 messages instead of 1"},
		"a message of no name": {"GET /session/{id}/message", write(`[{"info":{"id":"../x"}}]`, false), api.KindInvalid, "named a message"},
		"a long error": {"POST /session/{id}/prompt_async", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, strings.Repeat("\xff", 1<<20))
		}, api.KindInvalid, "(400)"},
		"a long header": {"GET /session/status", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, api.KindUnavailable, "header"},
	} {
		t.Run(name, func(t *testing.T) {
			p, h := newPeer(t, silently), &heard{}
			p.instead[tt.request] = tt.does
			cfg := p.config(h)
			cfg.Silence, cfg.Lost = 50*time.Millisecond, 300*time.Millisecond
			if strings.Contains(tt.says, "bytes") {
				cfg.Silence, cfg.Lost = time.Minute, time.Minute // it is a large amount on a busy machine
			}
			turn, err := client(t, cfg).Prompt(t.Context(), theOne, "go")
			if api.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) || len(err.Error()) > 16<<10 {
				t.Errorf("%+v, %.500v", turn, err)
			}
		})
	}
}

// TestGone: a server that has ended is noticed soon, and one that only ends its connections is not given up.
func TestGone(t *testing.T) {
	errEnded := errors.New("nothing listens")
	p := newPeer(t, func(p *peer, _ string) {
		p.Listener.Close()
		p.drop()
		p.CloseClientConnections()
	})
	cfg := p.config(&heard{})
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			err = fmt.Errorf("%w: %v", errEnded, err)
		}
		return c, err
	}
	cfg.Gone = func(err error) bool { return errors.Is(err, errEnded) }
	cfg.Lost, cfg.Silence = time.Hour, time.Hour
	c := client(t, cfg)
	if _, err := c.Prompt(t.Context(), theOne, "go"); api.KindOf(err) != api.KindUnavailable || !errors.Is(err, errEnded) {
		t.Errorf("%v", err)
	}
	if _, err := c.Ready(t.Context()); !errors.Is(err, errEnded) {
		t.Errorf("%v", err)
	}
	c.Close()
	if err := c.FindSession(t.Context(), theOne); err == nil {
		t.Error("a client that is closed connects")
	}
}

// TestUnanswered: questions that no event told of are answered, too.
func TestUnanswered(t *testing.T) {
	p := newPeer(t, nil)
	replied := make(chan struct{})
	p.work = func(p *peer, _ string) {
		<-replied
		usual(p, "")
	}
	p.instead["GET /permission"] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[{"id":"per_9"}]`) }
	once := false
	p.instead["POST /permission/{id}/reply"] = func(w http.ResponseWriter, r *http.Request) {
		if !once {
			once = true
			close(replied)
		}
		w.WriteHeader(http.StatusNotFound) // somebody else was first
	}
	cfg := p.config(&heard{})
	cfg.Poll = 20 * time.Millisecond
	if turn, err := client(t, cfg).Prompt(t.Context(), theOne, "go"); err != nil || turn.Stop != acp.EndTurn {
		t.Errorf("%+v, %v", turn, err)
	}
}
