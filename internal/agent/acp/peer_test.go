package acp_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"hortus.dev/internal/agent/acp"
)

// rpc is a message as the agent sees it.
type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// peer is an agent whose answers a test writes.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

// dial connects a client with an agent, which serve plays. Both have ended when the test ends.
func dial(t *testing.T, cfg acp.Config, serve func(p *peer)) *acp.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	p := &peer{t: t, conn: theirs, in: bufio.NewScanner(theirs)}
	p.in.Buffer(nil, 1<<20)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer theirs.Close()
		serve(p)
	})
	c := acp.New(ours, cfg)
	t.Cleanup(func() {
		c.Close()
		wg.Wait()
	})
	return c
}

// next reads a message; false at the end.
func (p *peer) next() (m rpc, ok bool) {
	if !p.in.Scan() {
		return m, false
	}
	if err := json.Unmarshal(p.in.Bytes(), &m); err != nil {
		p.t.Errorf("the client sent %q: %v", p.in.Text(), err)
	}
	return m, true
}

// until reads messages up to one of a method.
func (p *peer) until(method string) rpc {
	for {
		m, ok := p.next()
		if !ok || m.Method == method {
			return m
		}
	}
}

// line sends text; an error says that the client has gone.
func (p *peer) line(text string) bool {
	_, err := io.WriteString(p.conn, text+"\n")
	return err == nil
}

// answer answers a request with a result.
func (p *peer) answer(m rpc, result string) bool {
	return p.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
}

// update reports something about a session.
func (p *peer) update(session, text string) bool {
	return p.line(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"` + session + `","update":` + text + `}}`)
}

// hello answers initialize and session/new.
func (p *peer) hello() {
	p.answer(p.until("initialize"), `{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}},"agentInfo":{"name":"peer","version":"1.2"}}`)
	p.answer(p.until("session/new"), `{"sessionId":"s1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask"},{"id":"free"}]}}`)
}

// begin opens a session.
func begin(t *testing.T, c *acp.Client) acp.Session {
	t.Helper()
	a, err := c.Initialize(t.Context())
	if err != nil || a != (acp.Agent{Name: "peer", Version: "1.2", Load: true, Resume: true}) {
		t.Fatalf("%+v, %v", a, err)
	}
	s, err := c.NewSession(t.Context(), "/workspace")
	if err != nil || s.ID != "s1" || s.Mode != "ask" || strings.Join(s.Modes, " ") != "ask free" {
		t.Fatalf("%+v, %v", s, err)
	}
	return s
}
