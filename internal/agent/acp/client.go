package acp

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"hortus.dev/api"
)

// Bounds of what is kept of an agent.
const (
	// MaxLine is the longest message, in bytes.
	MaxLine = 16 << 20
	// maxNoise is how many lines may be no messages: programs print warnings.
	maxNoise = 1000
	// maxQueue is how many messages may wait for an agent that does not read.
	maxQueue = 256
	// maxID is the longest id of a request of the agent, in bytes.
	maxID = 256
	// maxError is what is kept of the text of an error, in bytes.
	maxError = 2 << 10
)

// DefaultGrace is how long an agent has to end a turn that was canceled.
const DefaultGrace = 5 * time.Second

const (
	// DefaultQuiet is how long an agent has to be quiet after it loaded a session: some replay it after their answer.
	DefaultQuiet = 100 * time.Millisecond
	// maxReplay bounds the time of such a replay.
	maxReplay = 10 * time.Second
)

// Config is what a Client is made of.
type Config struct {
	// Name and Version are what the agent is shown of the client.
	Name, Version string
	// Meta is sent with each request about a session, as its _meta; nil for none.
	Meta map[string]any
	// Update takes the reports of the agent, in order; nil for none. The next message is read when it returns. It must
	// not call the client.
	Update func(Update)
	// Asked is called for each permission that the agent asked for, with the option that it got; nil for nobody.
	Asked func(title, option string)
	// Grace is how long an agent has to end a turn that was canceled; 0 is DefaultGrace.
	Grace time.Duration
	// Quiet is how long an agent has to be quiet after it loaded a session; 0 is DefaultQuiet.
	Quiet time.Duration
}

// Client is the connection to one agent. Its methods may be called from several goroutines.
type Client struct {
	cfg  Config
	conn io.ReadWriteCloser

	queue chan []byte
	gone  chan struct{} // closed after err is set
	work  sync.WaitGroup
	heard atomic.Int64 // reports

	mu    sync.Mutex
	next  int64
	calls map[int64]chan answer
	err   error
}

// answer is what the agent said to a request.
type answer struct {
	result json.RawMessage
	err    *rpcError
}

// rpcError is an error of JSON-RPC.
type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// message is any message.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// The codes of errors.
const (
	codeNoMethod = -32601
	codeInvalid  = -32602
	codeAuth     = -32000
)

// New makes a Client, which owns the stream.
func New(conn io.ReadWriteCloser, cfg Config) *Client {
	cfg.Grace, cfg.Quiet = cmp.Or(cfg.Grace, DefaultGrace), cmp.Or(cfg.Quiet, DefaultQuiet)
	c := &Client{cfg: cfg, conn: conn, queue: make(chan []byte, maxQueue), gone: make(chan struct{}), calls: map[int64]chan answer{}}
	c.work.Go(c.read)
	c.work.Go(c.write)
	return c
}

// Close ends the connection. It is idempotent.
func (c *Client) Close() {
	c.fail(errClosed)
	c.work.Wait()
}

var errClosed = errors.New("the connection to the agent was closed")

// Gone is closed when the agent can no longer be asked; Err says why.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Err returns why the agent can no longer be asked; nil if it can.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail ends the connection; the first reason counts.
func (c *Client) fail(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
		close(c.gone)
	}
	c.mu.Unlock()
	if first {
		_ = c.conn.Close() // nobody writes to it any more
	}
}

// read takes what the agent sends until the stream ends.
func (c *Client) read() {
	r := bufio.NewReaderSize(c.conn, 64<<10)
	noise := 0
	for {
		line, err := readLine(r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = api.Errorf(api.KindUnavailable, "the agent ended its output")
			}
			c.fail(err)
			return
		}
		m, ok := parse(line)
		if !ok {
			if noise++; noise > maxNoise {
				c.fail(api.Errorf(api.KindInvalid, "the agent sent more than %d lines that are no messages of JSON-RPC 2.0", maxNoise))
				return
			}
			continue
		}
		c.take(m)
	}
}

// readLine returns the next line without its end. An error that is not of the stream is KindExhausted.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			return nil, api.Errorf(api.KindExhausted, "the agent sent a message of more than %d bytes", MaxLine)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF) && len(line) > 0: // a last line without an end
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// parse reads a message. It is false for what is none.
func parse(line []byte) (message, bool) {
	var m message
	if json.Unmarshal(line, &m) != nil || m.Version != "2.0" {
		return message{}, false
	}
	return m, true
}

// take serves a message.
func (c *Client) take(m message) {
	switch {
	case m.Method != "" && len(m.ID) > 0:
		c.serve(m)
	case m.Method == "session/update":
		c.heard.Add(1)
		if c.cfg.Update == nil {
			return
		}
		if u, ok := parseUpdate(m.Params); ok {
			c.cfg.Update(u)
		}
	case m.Method != "": // a notification that nobody knows
	default:
		var id int64
		if json.Unmarshal(m.ID, &id) != nil {
			return
		}
		c.mu.Lock()
		to := c.calls[id]
		delete(c.calls, id)
		c.mu.Unlock()
		if to != nil {
			to <- answer{m.Result, m.Error} // it has space for one
		}
	}
}

// serve answers a request of the agent.
func (c *Client) serve(m message) {
	if len(m.ID) > maxID {
		c.fail(api.Errorf(api.KindInvalid, "the agent sent a request with an id of %d bytes; the maximum is %d", len(m.ID), maxID))
		return
	}
	out := message{Version: "2.0", ID: m.ID}
	switch m.Method {
	case "session/request_permission":
		p, ok := parsePermission(m.Params)
		if !ok {
			out.Error = &rpcError{Code: codeInvalid, Message: "the parameters are no request for a permission"}
			break
		}
		option := p.choose()
		out.Result = p.outcome(option)
		if c.cfg.Asked != nil {
			c.cfg.Asked(p.title, option)
		}
	default:
		out.Error = &rpcError{Code: codeNoMethod, Message: "this client does not offer " + clip(m.Method, 100)}
	}
	_ = c.send(out) // an error has ended the connection
}

// send queues a message. An agent that does not read is left.
func (c *Client) send(m message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return api.Errorf(api.KindInternal, "encode a message to the agent: %w", err)
	}
	if err := c.Err(); err != nil {
		return err
	}
	select {
	case c.queue <- append(b, '\n'):
		return nil
	default:
		err := api.Errorf(api.KindUnavailable, "the agent does not read: %d messages wait for it", maxQueue)
		c.fail(err)
		return err
	}
}

// write sends what is queued until the connection ends.
func (c *Client) write() {
	for {
		select {
		case b := <-c.queue:
			if _, err := c.conn.Write(b); err != nil {
				c.fail(api.Errorf(api.KindUnavailable, "write to the agent: %w", err))
				return
			}
		case <-c.gone:
			return
		}
	}
}

// begin sends a request and returns where its answer comes, and what forgets it.
func (c *Client) begin(method string, params any) (<-chan answer, func(), error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, nil, api.Errorf(api.KindInternal, "encode %s: %w", method, err)
	}
	to := make(chan answer, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.calls[id] = to
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, id)
	}
	if err := c.send(message{Version: "2.0", ID: fmt.Append(nil, id), Method: method, Params: raw}); err != nil {
		forget()
		return nil, nil, err
	}
	return to, forget, nil
}

// call asks the agent and reads its answer into out, which may be nil.
func (c *Client) call(ctx context.Context, method string, params, out any) error {
	to, forget, err := c.begin(method, params)
	if err != nil {
		return err
	}
	defer forget()
	select {
	case a := <-to:
		return a.into(method, out)
	case <-ctx.Done():
		return ctx.Err()
	case <-c.gone:
		return c.last(to, method, out)
	}
}

// last reads an answer that came just before the end of the connection.
func (c *Client) last(to <-chan answer, method string, out any) error {
	select {
	case a := <-to:
		return a.into(method, out)
	default:
		return c.Err()
	}
}

// into reads an answer.
func (a answer) into(method string, out any) error {
	if a.err != nil {
		kind := api.KindInvalid
		switch {
		case a.err.Code == codeNoMethod:
			kind = api.KindUnsupported
		case a.err.Code == codeAuth:
			kind = api.KindUnauthenticated
		}
		text := clip(a.err.Message, maxError)
		if more := a.err.detail(); more != "" {
			text += ": " + more
		}
		return api.Errorf(kind, "the agent refused %s (%d): %s", method, a.err.Code, text)
	}
	if out == nil || len(a.result) == 0 || string(a.result) == "null" {
		return nil
	}
	if err := json.Unmarshal(a.result, out); err != nil {
		return api.Errorf(api.KindInvalid, "the agent answered %s with something else than the protocol says: %w", method, err)
	}
	return nil
}

// detail is what the data of an error says.
func (e *rpcError) detail() string {
	if len(e.Data) == 0 || string(e.Data) == "null" {
		return ""
	}
	var has struct{ Message, Details string }
	if json.Unmarshal(e.Data, &has) == nil && has.Message+has.Details != "" {
		return clip(cmp.Or(has.Message, has.Details), maxError)
	}
	return clip(string(e.Data), maxError)
}
