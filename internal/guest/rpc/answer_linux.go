package rpc

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// ErrGone is the error of a handler whose client has left.
var ErrGone = api.Errorf(api.KindCanceled, "the client disconnected")

// refuse answers a request that could not be parsed, unless the connection failed.
func (c *Conn) refuse(err error) {
	var ne net.Error
	if err == io.EOF || errors.As(err, &ne) {
		return
	}
	c.close = true
	status := http.StatusBadRequest
	if errors.Is(err, errHeadTooLong) {
		status = http.StatusRequestHeaderFieldsTooLarge
	}
	c.Fail(status, err.Error())
}

// Fail answers a plain request with an error. E2B's clients read the code in the body.
func (c *Conn) Fail(status int, message string) error {
	return c.answerJSON(status, struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{status, message})
}

// FailRPC answers a unary Connect call with an error.
func (c *Conn) FailRPC(err error) error {
	e := envd.FromAPI(err)
	return c.answerJSON(e.HTTPStatus(), e)
}

// RequireMethod answers the request and returns false unless it has one of the methods.
func (c *Conn) RequireMethod(req *http.Request, methods ...string) (bool, error) {
	for _, m := range methods {
		if req.Method == m {
			return true, nil
		}
	}
	return false, c.Fail(http.StatusMethodNotAllowed, "method "+req.Method+" is not allowed")
}

// Unary returns a handler for a call with one message each way.
func Unary[In, Out any, PI interface {
	*In
	envd.Message
}, PO interface {
	*Out
	envd.Message
}](call func(c *Conn, req *http.Request, in PI) (PO, error)) Handler {
	return func(c *Conn, req *http.Request) error {
		if ok, err := c.RequireMethod(req, http.MethodPost); !ok {
			return err
		}
		codec, ok := envd.CodecOf(req.Header.Get("Content-Type"), false)
		if !ok {
			return c.Answer(http.StatusUnsupportedMediaType, "", nil)
		}
		if err := encodingOK(req.Header.Get("Content-Encoding")); err != nil {
			return c.FailRPC(err)
		}
		body, err := io.ReadAll(io.LimitReader(req.Body, envd.DefaultMaxFrame+1))
		if err != nil {
			return err
		}
		if len(body) > envd.DefaultMaxFrame {
			return c.FailRPC(api.Errorf(api.KindExhausted, "the request is longer than %d bytes", envd.DefaultMaxFrame))
		}
		in := PI(new(In))
		if err := envd.Decode(body, codec, in); err != nil {
			return c.FailRPC(api.Errorf(api.KindInvalid, "the request: %w", err))
		}
		out, err := call(c, req, in)
		if err != nil {
			return c.FailRPC(err)
		}
		data, err := envd.Append(nil, codec, out)
		if err != nil {
			return c.FailRPC(err)
		}
		return c.Answer(http.StatusOK, codec.ContentType(false), data)
	}
}

func encodingOK(name string) error {
	if name != "" && name != "identity" {
		return api.Errorf(api.KindUnsupported, "requests compressed with %q are not accepted", name)
	}
	return nil
}

// StreamRequest reads the single message of a server stream's request. If ok is false, it
// has answered the request.
func (c *Conn) StreamRequest(req *http.Request, m envd.Message) (codec envd.Codec, ok bool, err error) {
	if ok, err := c.RequireMethod(req, http.MethodPost); !ok {
		return 0, false, err
	}
	codec, ok = envd.CodecOf(req.Header.Get("Content-Type"), true)
	if !ok {
		return 0, false, c.Answer(http.StatusUnsupportedMediaType, "", nil)
	}
	if err := encodingOK(req.Header.Get("Connect-Content-Encoding")); err != nil {
		return codec, false, c.FailStream(codec, err)
	}
	fr := envd.FrameReader{R: req.Body}
	_, payload, err := fr.Next()
	if err == nil {
		err = envd.Decode(payload, codec, m)
	}
	if err != nil {
		return codec, false, c.FailStream(codec, api.Errorf(api.KindInvalid, "the request: %w", err))
	}
	c.DrainOrClose(req)
	return codec, true, nil
}

// FailStream answers a stream with only an error.
func (c *Conn) FailStream(codec envd.Codec, err error) error {
	return c.Begin(codec).Finish(envd.FromAPI(err))
}

// AnswerJSON sends a value as JSON with status 200.
func (c *Conn) AnswerJSON(v any) error { return c.answerJSON(http.StatusOK, v) }

func (c *Conn) answerJSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Answer(status, envd.TypeJSON, body)
}

// DrainOrClose reads the rest of a request's body. If that fails, the connection is closed
// after the answer.
func (c *Conn) DrainOrClose(req *http.Request) {
	if !c.Drain(req) {
		c.close = true
	}
}
