package outside

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"hortus.dev/test/patience"
)

// object is parameters, or a result.
type object = map[string]any

// refusal is the error of an answer.
type refusal struct {
	Code    int
	Message string
}

func (e *refusal) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// received is a message of the server.
type received struct {
	ID     *int
	Method string
	Params note
	Result json.RawMessage
	Error  *refusal
}

// note is what notifications hold.
type note struct {
	ProcessID string
	Seq       uint64
	Stream    string
	Chunk     []byte
	ExitCode  int
}

// peer is a client of the protocol.
type peer struct {
	t *testing.T
	c *websocket.Conn

	mu      sync.Mutex
	id      int
	answers map[int]received
	notes   []received
	changed chan struct{} // closed at the next message
	err     error
	done    chan struct{}
}

// dial connects without the handshake of the protocol.
func dial(t *testing.T, url string) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(10*time.Second))
	defer cancel()
	var opt websocket.DialOptions
	if strings.Contains(url, "/v1/") {
		opt.HTTPHeader = http.Header{"Authorization": {"Bearer " + key}}
	}
	c, _, err := websocket.Dial(ctx, url, &opt)
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(64 << 20)
	p := &peer{t: t, c: c, answers: map[int]received{}, changed: make(chan struct{}), done: make(chan struct{})}
	go p.read()
	t.Cleanup(p.cut)
	return p
}

// connect connects and begins a session.
func connect(t *testing.T, url string) *peer {
	t.Helper()
	p := dial(t, url)
	p.ok("initialize", object{"clientName": "test", "resumeSessionId": nil})
	p.send(object{"method": "initialized", "params": object{}})
	return p
}

// cut ends the connection without a word.
func (p *peer) cut() {
	_ = p.c.CloseNow()
	<-p.done
}

func (p *peer) read() {
	defer close(p.done)
	for {
		_, b, err := p.c.Read(context.Background())
		var m received
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		p.mu.Lock()
		switch {
		case err != nil:
			p.err = err
		case m.ID != nil:
			p.answers[*m.ID] = m
		default:
			p.notes = append(p.notes, m)
		}
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await waits until a condition holds, which is called with the lock held.
func (p *peer) await(what string, holds func() bool) {
	p.t.Helper()
	late := time.After(patience.Of(time.Minute))
	for {
		p.mu.Lock()
		ok, err, changed := holds(), p.err, p.changed
		p.mu.Unlock()
		switch {
		case ok:
			return
		case err != nil:
			p.t.Fatalf("%s: the connection ended: %v", what, err)
		}
		select {
		case <-changed:
		case <-late:
			p.t.Fatalf("%s: nothing came", what)
		}
	}
}

func (p *peer) send(m any) {
	p.t.Helper()
	b, err := json.Marshal(m)
	if err == nil {
		err = p.c.Write(p.t.Context(), websocket.MessageText, b)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// ask sends a request and returns its number.
func (p *peer) ask(method string, params any) int {
	p.t.Helper()
	p.mu.Lock()
	p.id++
	id := p.id
	p.mu.Unlock()
	p.send(object{"id": id, "method": method, "params": params})
	return id
}

// answer waits for the answer to a request.
func (p *peer) answer(id int) received {
	p.t.Helper()
	var m received
	p.await(fmt.Sprintf("the answer to request %d", id), func() (ok bool) { m, ok = p.answers[id]; return ok })
	return m
}

// ok calls a method that must succeed.
func (p *peer) ok(method string, params any) object {
	p.t.Helper()
	m := p.answer(p.ask(method, params))
	var out object
	if m.Error != nil {
		p.t.Fatalf("%s %.300v: %v", method, params, m.Error)
	}
	if err := json.Unmarshal(m.Result, &out); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	return out
}

// refused calls a method that must fail with a code, and words.
func (p *peer) refused(code int, words, method string, params any) {
	p.t.Helper()
	m := p.answer(p.ask(method, params))
	if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, words) {
		p.t.Errorf("%s %.200v: %v %.200s; want code %d and %q", method, params, m.Error, m.Result, code, words)
	}
}

// start starts a command; more are further parameters.
func (p *peer) start(id string, argv []string, more object) {
	p.t.Helper()
	p.ok("process/start", command(id, argv, more))
}

func command(id string, argv []string, more object) object {
	in := object{"processId": id, "argv": argv, "cwd": "file:///workspace", "env": object{}, "tty": false, "pipeStdin": false, "arg0": nil,
		"envPolicy": object{"inherit": "all", "ignoreDefaultExcludes": true, "exclude": []string{}, "set": object{}, "includeOnly": []string{}},
		"sandbox":   nil, "enforceManagedNetwork": false, "managedNetwork": nil}
	for name, v := range more {
		in[name] = v
	}
	return in
}

// ended waits for the end of a process and returns its output by stream, and its exit code.
// Its numbers must have no gap.
func (p *peer) ended(id string) (out map[string]string, code int) {
	p.t.Helper()
	p.await("the end of "+id, func() bool {
		for _, m := range p.notes {
			if m.Method == "process/closed" && m.Params.ProcessID == id {
				return true
			}
		}
		return false
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	out = map[string]string{}
	var seq uint64
	for _, m := range p.notes {
		if m.Params.ProcessID != id {
			continue
		}
		if seq++; m.Params.Seq != seq {
			p.t.Errorf("%s: number %d after %d", id, m.Params.Seq, seq-1)
		}
		switch m.Method {
		case "process/output":
			out[m.Params.Stream] += string(m.Params.Chunk)
		case "process/exited":
			code = m.Params.ExitCode
		}
	}
	return out, code
}

// said waits until a process has printed a text.
func (p *peer) said(id, text string) {
	p.t.Helper()
	p.await(text, func() bool {
		var b strings.Builder
		for _, m := range p.notes {
			if m.Method == "process/output" && m.Params.ProcessID == id {
				b.Write(m.Params.Chunk)
			}
		}
		return strings.Contains(b.String(), text)
	})
}

// sh is the argv of a shell command.
func sh(text string) []string { return []string{"sh", "-c", text} }
