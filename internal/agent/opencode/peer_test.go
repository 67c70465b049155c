package opencode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hortus.dev/internal/agent/acp"
	"hortus.dev/internal/agent/opencode"
)

const (
	password = "the password"
	theOne   = "ses_1"
)

// peer is a server whose work on a message a test writes.
type peer struct {
	*httptest.Server
	t    *testing.T
	work func(p *peer, text string)
	wg   sync.WaitGroup

	mu       sync.Mutex
	messages []json.RawMessage // {"info":…,"parts":…}
	ids      []string
	busy     bool
	streams  map[chan string]bool
	came     chan struct{} // closed and renewed when a stream begins
	aborted  chan struct{}
	calls    []string
	// instead replaces what a request ("GET /event") does.
	instead map[string]http.HandlerFunc
}

// newPeer starts a server. Everything of it has ended when the test ends.
func newPeer(t *testing.T, work func(p *peer, text string)) *peer {
	t.Helper()
	p := &peer{t: t, work: work, streams: map[chan string]bool{}, came: make(chan struct{}), aborted: make(chan struct{}), instead: map[string]http.HandlerFunc{}}
	mux := http.NewServeMux()
	on := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if _, pw, _ := r.BasicAuth(); pw != password {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			p.mu.Lock()
			p.calls = append(p.calls, r.Method+" "+r.URL.Path)
			other := p.instead[pattern]
			p.mu.Unlock()
			if other != nil {
				other(w, r)
				return
			}
			h(w, r)
		})
	}
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
	}
	on("GET /global/health", text(`{"healthy":true,"version":"9"}`))
	on("POST /session", text(`{"id":"`+theOne+`"}`))
	on("GET /session/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != theOne {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"name":"NotFoundError","data":{"message":"Session not found"}}`)
			return
		}
		fmt.Fprint(w, `{"id":"`+theOne+`"}`)
	})
	on("GET /session/status", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.busy {
			fmt.Fprint(w, `{"`+theOne+`":{"type":"busy"}}`)
			return
		}
		fmt.Fprint(w, `{}`)
	})
	on("GET /session/{id}/message", p.page)
	on("POST /session/{id}/prompt_async", func(w http.ResponseWriter, r *http.Request) {
		p.take(r)
		w.WriteHeader(http.StatusNoContent)
	})
	on("POST /session/{id}/abort", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		p.busy = false
		select {
		case <-p.aborted:
		default:
			close(p.aborted)
		}
		p.mu.Unlock()
		fmt.Fprint(w, "true")
	})
	on("GET /permission", text(`[]`))
	on("GET /question", text(`[]`))
	on("POST /permission/{id}/reply", text("true"))
	on("POST /question/{id}/reject", text("true"))
	on("GET /event", p.events)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		p.drop()
		p.CloseClientConnections()
		p.wg.Wait()
		p.Close()
	})
	return p
}

// take takes a message, and has it worked on.
func (p *peer) take(r *http.Request) {
	var in struct{ Parts []struct{ Text string } }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Parts) != 1 {
		p.t.Errorf("a message: %+v, %v", in, err)
		return
	}
	p.mu.Lock()
	p.busy = true
	p.mu.Unlock()
	p.put("msg_1", `{"id":"msg_1","sessionID":"`+theOne+`","role":"user"}`, `{"id":"prt_1","messageID":"msg_1","sessionID":"`+theOne+`","type":"text","text":"the message itself","time":{"end":1}}`)
	p.wg.Go(func() { p.work(p, in.Parts[0].Text) })
}

// page answers with messages.
func (p *peer) page(w http.ResponseWriter, r *http.Request) {
	most, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	p.mu.Lock()
	defer p.mu.Unlock()
	end := len(p.messages)
	if c := r.URL.Query().Get("before"); c != "" {
		end, _ = strconv.Atoi(c)
	}
	from := max(0, end-most)
	if from > 0 {
		w.Header().Set("X-Next-Cursor", strconv.Itoa(from))
	}
	fmt.Fprint(w, "[")
	for i, m := range p.messages[from:end] {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		w.Write(m)
	}
	fmt.Fprint(w, "]")
}

// events sends events until the stream is dropped.
func (p *peer) events(w http.ResponseWriter, r *http.Request) {
	lines := make(chan string, 1000)
	lines <- "data: {\"type\":\"server.connected\",\"properties\":{}}\n\n"
	p.mu.Lock()
	p.streams[lines] = true
	close(p.came)
	p.came = make(chan struct{})
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.streams, lines)
		p.mu.Unlock()
	}()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return
			}
			fmt.Fprint(w, line)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// drop ends the streams of events.
func (p *peer) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams {
		close(s)
		delete(p.streams, s)
	}
}

// again is closed when the next stream of events begins.
func (p *peer) again() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.came
}

// line sends text to those that listen.
func (p *peer) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams {
		s <- text
	}
}

// tell sends an event.
func (p *peer) tell(kind, properties string) {
	p.line(`data: {"id":"evt_1","type":"` + kind + `","properties":` + properties + "}\n\n")
}

// put stores a message.
func (p *peer) put(id, info string, parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := json.RawMessage(`{"info":` + info + `,"parts":[` + strings.Join(parts, ",") + `]}`)
	if i := slices.Index(p.ids, id); i >= 0 {
		p.messages[i] = m
		return
	}
	p.ids, p.messages = append(p.ids, id), append(p.messages, m)
}

// step stores a whole message of the agent, and tells of it.
func (p *peer) step(n int, finish string, parts ...string) {
	id := fmt.Sprintf("msg_%03d", n+100)
	info := `{"id":"` + id + `","sessionID":"` + theOne + `","role":"assistant","time":{"completed":7},"tokens":{"input":10,"output":2,"reasoning":1,"cache":{"read":5,"write":3}},"finish":"` + finish + `"}`
	for i := range parts {
		parts[i] = strings.NewReplacer("MSG", id, "SES", theOne).Replace(parts[i])
	}
	p.put(id, info, parts...)
	p.tell("message.updated", `{"sessionID":"`+theOne+`","info":{"id":"`+id+`","sessionID":"`+theOne+`","role":"assistant","tokens":{"input":1}}}`)
	for _, part := range parts {
		p.tell("message.part.updated", `{"sessionID":"`+theOne+`","part":`+part+`}`)
	}
	p.tell("message.updated", `{"sessionID":"`+theOne+`","info":`+info+`}`)
}

// rest ends the work.
func (p *peer) rest() {
	p.mu.Lock()
	p.busy = false
	p.mu.Unlock()
	p.tell("session.status", `{"sessionID":"`+theOne+`","status":{"type":"idle"}}`)
	p.tell("session.idle", `{"sessionID":"`+theOne+`"}`)
}

// called counts requests.
func (p *peer) called(what string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c == what {
			n++
		}
	}
	return n
}

// says is a part with text, and calls one with the call of a tool.
func says(n int, text string) string {
	return fmt.Sprintf(`{"id":"prt_%d","messageID":"MSG","sessionID":"SES","type":"text","text":%q,"time":{"start":1,"end":2}}`, n, text)
}

func calls(n int, status string) string {
	return fmt.Sprintf(`{"id":"prt_%d","messageID":"MSG","sessionID":"SES","type":"tool","tool":"bash","callID":"c","state":{"status":%q,"input":{"command": "x"},"output":"out","error":"err","title":"T"}}`, n, status)
}

// heard are updates in short.
type heard struct{ all []string }

func (h *heard) update(u acp.Update) {
	h.all = append(h.all, strings.TrimRight(strings.Join([]string{string(u.Kind), u.Text, u.Call.ID, u.Call.Title, u.Call.Kind, string(u.Call.Status), u.Call.Input, u.Call.Output}, "|"), "|"))
}

// config is that of a client of the peer.
func (p *peer) config(h *heard) opencode.Config {
	return opencode.Config{
		Password: password, Update: h.update,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", p.Listener.Addr().String())
		},
	}
}

// client makes a client, which is closed when the test ends.
func client(t *testing.T, cfg opencode.Config) *opencode.Client {
	t.Helper()
	c := opencode.New(cfg)
	t.Cleanup(c.Close)
	return c
}
