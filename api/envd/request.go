package envd

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"hortus.dev/api"
)

// header is a line that one request adds.
type header struct{ name, value string }

// appendHead writes a request's head. A bodyLen below 0 means chunked.
func (c *Client) appendHead(b []byte, method, path, contentType string, bodyLen int, extra []header) ([]byte, error) {
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, c.cfg.Prefix...)
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\n"...)
	b = append(b, c.head...)
	if contentType != "" {
		b = append(b, "Content-Type: "...)
		b = append(b, contentType...)
		b = append(b, "\r\n"...)
	}
	for _, h := range extra {
		if h.value == "" {
			continue
		}
		if !oneLine(h.value) {
			return b, api.Errorf(api.KindInvalid, "header %s: the value contains a line break", h.name)
		}
		b = append(b, h.name...)
		b = append(b, ": "...)
		b = append(b, h.value...)
		b = append(b, "\r\n"...)
	}
	if bodyLen < 0 {
		b = append(b, "Transfer-Encoding: chunked\r\n\r\n"...)
	} else {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(bodyLen), 10)
		b = append(b, "\r\n\r\n"...)
	}
	return b, nil
}

// userHeader selects an identity; the empty name means the default one.
func userHeader(user string) header {
	if user == "" {
		return header{}
	}
	return header{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"))}
}

// timeoutHeader is empty for no timeout; a part of a millisecond counts whole.
func timeoutHeader(d time.Duration) header {
	if d <= 0 {
		return header{}
	}
	return header{"Connect-Timeout-Ms", strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)}
}

// keepaliveHeader requests an event in each such stretch of silence, in whole
// seconds, at least 1.
func keepaliveHeader(d time.Duration) header {
	if d <= 0 {
		return header{}
	}
	return header{"Keepalive-Ping-Interval", strconv.FormatInt(max(1, int64(d/time.Second)), 10)}
}

var (
	versionHeader = header{HeaderVersion, Version}
	connectHeader = header{"Connect-Protocol-Version", "1"}
)

// unary does one call. idempotent says that the call may be sent again when a
// kept connection turns out to be dead before it gave a byte.
func (c *Client) unary(ctx context.Context, path, user string, idempotent bool, in, out Message) error {
	if err := checkText(in); err != nil {
		return err
	}
	body := in.appendProto(nil)
	err := c.unaryOnce(ctx, path, user, false, body, out)
	if errors.Is(err, errStale) {
		if !idempotent {
			return api.Errorf(api.KindUnavailable, "the connection to the guest was closed before it answered")
		}
		err = c.unaryOnce(ctx, path, user, true, body, out)
	}
	return err
}

// errStale reports that a kept connection ended before a byte of the answer.
var errStale = errors.New("the reused connection was closed")

func (c *Client) unaryOnce(ctx context.Context, path, user string, fresh bool, body []byte, out Message) error {
	cc, err := c.get(ctx, fresh)
	if err != nil {
		return err
	}
	stop := watch(ctx, cc)
	cc.wbuf, err = c.appendHead(cc.wbuf[:0], http.MethodPost, path, TypeProto, len(body),
		[]header{connectHeader, versionHeader, userHeader(user)})
	if err != nil {
		stop()
		cc.Close()
		return err
	}
	cc.wbuf = append(cc.wbuf, body...)
	resp, err := c.exchange(ctx, cc, http.MethodPost)
	if err != nil {
		stop()
		cc.Close()
		return err
	}
	cc.SetReadDeadline(time.Now().Add(c.cfg.Timeout))
	if resp.StatusCode != http.StatusOK {
		err = readError(resp)
	} else {
		err = c.readUnary(ctx, resp, out)
	}
	cc.SetReadDeadline(time.Time{})
	if !stop() {
		cc.Close()
		return ctx.Err()
	}
	c.finish(cc, resp)
	return err
}

func (c *Client) readUnary(ctx context.Context, resp *http.Response, out Message) error {
	if _, ok := CodecOf(resp.Header.Get("Content-Type"), false); !ok {
		return api.Errorf(api.KindUnavailable, "the answer is not from a guest: its content type is %q", clip(resp.Header.Get("Content-Type")))
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.cfg.MaxFrame)+1))
	if err != nil {
		return cut(ctx, err)
	}
	if len(data) > c.cfg.MaxFrame {
		return api.Errorf(api.KindExhausted, "the guest's response is larger than %d bytes", c.cfg.MaxFrame)
	}
	if err := Decode(data, Proto, out); err != nil {
		return api.Errorf(api.KindInternal, "the guest's response: %w", err)
	}
	return nil
}

// exchange sends wbuf and reads the head of the answer. errStale is returned
// only when not a byte of an answer came on a connection that had been idle.
func (c *Client) exchange(ctx context.Context, cc *clientConn, method string) (*http.Response, error) {
	cc.SetWriteDeadline(time.Now().Add(c.cfg.Timeout))
	_, werr := cc.Write(cc.wbuf)
	if werr == nil {
		cc.SetWriteDeadline(time.Time{})
	}
	// A guest may refuse before it has read everything, so its answer is
	// looked for even when the request could not be written.
	resp, err := c.readHead(cc, method)
	if err == nil {
		return resp, nil
	}
	if werr != nil {
		err = werr
	}
	if cc.reused && cc.silent && ctx.Err() == nil && isEnd(err) {
		return nil, errStale
	}
	return nil, cut(ctx, err)
}
