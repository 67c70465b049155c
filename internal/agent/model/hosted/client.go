package hosted

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"hortus.dev/api"
)

// Client sends requests to an endpoint: a JSON document out, a stream of events or a JSON
// document back. Its errors are those of the contract of package model. Nothing is tried twice.
type Client struct {
	Endpoint Endpoint
	// Header is sent with every request, and has the key.
	Header http.Header
	// HTTP carries the requests; see [NewClient] and [NewDocumentClient].
	HTTP *http.Client
}

// Stream sends a request and returns the events of the answer. The caller closes them.
func (c *Client) Stream(ctx context.Context, path string, request any) (*Events, error) {
	resp, err := c.post(ctx, path, request)
	if err != nil {
		return nil, err
	}
	return &Events{client: c, ctx: ctx, body: resp.Body, lines: bufio.NewReader(resp.Body)}, nil
}

// Document sends a request and returns the answer, which is one document.
func (c *Client) Document(ctx context.Context, path string, request any) ([]byte, error) {
	resp, err := c.post(ctx, path, request)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.Endpoint.Failure(ctx, err)
	}
	return b, nil
}

func (c *Client) post(ctx context.Context, path string, request any) (*http.Response, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(request); err != nil {
		return nil, c.Endpoint.Errorf(api.KindInvalid, "cannot encode the request: %v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.Endpoint.BaseURL, "/")+path, &body)
	if err != nil {
		return nil, c.Endpoint.Errorf(api.KindInvalid, "%v", err).WithHint("Check the base URL (%s).", c.Endpoint.BaseURL)
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, c.Endpoint.Failure(ctx, err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body) // the transport bounds it
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && len(said) == 0 {
		return nil, c.Endpoint.Failure(ctx, err)
	}
	class, text := ErrorText(said)
	return nil, c.Endpoint.Status(resp.StatusCode, class, text, resp.Header)
}

// ErrorText reads an error document of either vendor, or of a server that words it in another
// way: the class is the code or the type of the error, and the text its message. A document
// without these is the text itself.
func ErrorText(doc []byte) (class, text string) {
	type words struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"` // a text, a number or null
		Message string          `json:"message"`
	}
	var outer struct {
		words
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(doc, &outer) != nil {
		return "", string(doc)
	}
	said := outer.words
	if len(outer.Error) > 0 && string(outer.Error) != "null" {
		said = words{}
		if json.Unmarshal(outer.Error, &said.Message) != nil && json.Unmarshal(outer.Error, &said) != nil {
			return "", string(doc)
		}
	}
	class = said.Type
	var code string
	if json.Unmarshal(said.Code, &code) == nil && code != "" {
		class = code
	}
	if said.Message == "" {
		said.Message = string(doc)
	}
	return class, said.Message
}

// Events reads the events of a stream: the "data" of server-sent events, as the HTML standard
// has them. The lengths of an event and of the stream are bounded by the transport.
type Events struct {
	client *Client
	ctx    context.Context
	body   io.ReadCloser
	lines  *bufio.Reader
	name   string
	data   []byte
	err    error // why Next returns false
	told   bool  // err is what an event reported
}

// Next reads the next event. It returns false at the end of the stream, and after an error. An
// event that the stream ends in is not one.
func (e *Events) Next() bool {
	e.name, e.data = "", e.data[:0]
	lines := 0
	for e.err == nil {
		line, err := e.lines.ReadBytes('\n')
		if err != nil {
			e.err = err
			return false
		}
		line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
		if len(line) == 0 {
			if lines > 0 {
				return true
			}
			e.name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = string(value)
		case "data":
			if lines++; lines > 1 {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		}
	}
	return false
}

// Name is the name of the event, which may be empty.
func (e *Events) Name() string { return e.name }

// Data is the content of the event. It is valid until the next call of Next.
func (e *Events) Data() []byte { return e.data }

// Decode reads the content of the event into v. After an error Next returns false.
func (e *Events) Decode(v any) bool {
	if err := json.Unmarshal(e.data, v); err != nil {
		e.err = err
	}
	return e.err == nil
}

// Fail ends the stream with the error that an event reports.
func (e *Events) Fail() {
	class, text := ErrorText(e.data)
	e.err, e.told = e.client.Endpoint.Status(http.StatusOK, class, text, nil), true
}

// Close ends the stream and returns why it failed, or nil at its end.
func (e *Events) Close() error {
	e.body.Close()
	switch {
	case e.ctx.Err() != nil:
		return e.ctx.Err()
	case e.err == nil || e.err == io.EOF:
		return nil
	case e.told:
		return e.err
	}
	return e.client.Endpoint.Failure(e.ctx, e.err)
}
