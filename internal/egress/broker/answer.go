package broker

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"hortus.dev/internal/egress/web"
)

// limitAnswer makes a server answer in an encoding that can be searched.
func limitAnswer(h http.Header) {
	accepted := "identity"
	for part := range strings.SplitSeq(strings.Join(h["Accept-Encoding"], ","), ",") {
		name, q, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(part, " ", "")), ";")
		if name == "gzip" && (!strings.HasPrefix(q, "q=0") || strings.Trim(q[2:], "0.") != "") {
			accepted = "gzip"
		}
	}
	h["Accept-Encoding"] = []string{accepted}
	delete(h, "Grpc-Accept-Encoding")
	delete(h, "Connect-Accept-Encoding")
}

// withoutHints empties informational answers, which are sent on before they could be searched. It notes
// the connection.
func (f *flight) withoutHints(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { f.conn.Store(&i.Conn) },
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			clear(h)
			return nil
		},
	})
}

// discard closes the connection of an answer without a body, over HTTP/1: what a wrong server sends behind it
// would be the answer to the next request.
func (f *flight) discard(resp *http.Response) {
	if c := f.conn.Load(); c != nil && resp.ProtoMajor == 1 {
		(*c).Close()
	}
}

// maxWhole is the maximum size of an answer that is read to its end before it is sent on, so that
// its length is known, in bytes.
const maxWhole = 64 << 10

// answer redacts an answer.
func (f *flight) answer(resp *http.Response, red *redactor, r *http.Request) (*http.Response, error) {
	once := &onceDone{f: f}
	metered := f.metered(resp)
	if resp.StatusCode == http.StatusSwitchingProtocols && !upgrades(r) {
		once.done(resp.StatusCode, 0)
		return nil, drop(resp, &web.Refusal{Failed: true, Reason: "the server switched protocols without being asked"})
	}
	if red != nil {
		red.header(resp.Header)
		for name := range resp.Trailer {
			if red.named(name) {
				delete(resp.Trailer, name)
			}
		}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return f.upgraded(resp, red)
	}
	if resp.Body == http.NoBody || r.Method == http.MethodHead {
		once.done(resp.StatusCode, 0)
		f.discard(resp)
		return resp, nil
	}
	src := &answerBody{resp: resp, src: resp.Body, red: red, once: once}
	body := resp.Body
	if red == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{src, src}
		return resp, nil
	}
	reader := io.Reader(src)
	switch e := encoding(resp.Header); e {
	case "":
	case "gzip", "deflate":
		reader = newDecoder(e, src)
		for _, name := range []string{"Content-Encoding", "Content-Length", "Content-Md5", "Content-Digest"} {
			delete(resp.Header, name)
		}
		resp.ContentLength = -1
	default:
		body.Close()
		once.done(resp.StatusCode, 0)
		return nil, &web.Refusal{Failed: true, Reason: "the answer has the encoding " + clip(e, 40) + ", in which it cannot be searched for the value of a secret"}
	}
	if src.metered = metered; metered {
		reader = &meteredAnswer{f.spending, reader, func() { once.done(resp.StatusCode, src.n.Load()) }}
	}
	broken := func() {
		if r.Context().Err() == nil { // the client has not left
			f.broke(resp.StatusCode, src.n.Load())
		}
	}
	stream := &searchedStream{r: red, src: reader, fixed: resp.ContentLength > maxWhole, broken: broken}
	if stream.messages = messagesOf(resp.Header.Get("Content-Type")); stream.messages != nil {
		stream.fixed = true
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{stream, src}
	if resp.ContentLength >= 0 {
		stream.size = int(min(resp.ContentLength+1, readSize))
	}
	if resp.ContentLength >= 0 && resp.ContentLength <= maxWhole {
		whole, err := io.ReadAll(stream)
		src.Close()
		if err != nil {
			return nil, f.failure(err)
		}
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(whole)), int64(len(whole))
		resp.Header["Content-Length"] = []string{strconv.Itoa(len(whole))}
	}
	return resp, nil
}

// answerBody is the body of an answer. At its end it redacts the trailers and records the request.
type answerBody struct {
	resp *http.Response
	src  io.ReadCloser
	red  *redactor
	once *onceDone
	n    atomic.Int64
	// metered is true if another reader records the request at its end.
	metered bool
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.n.Add(int64(n))
	if err == io.EOF {
		if b.red != nil {
			b.red.header(b.resp.Trailer)
		}
		if !b.metered {
			b.once.done(b.resp.StatusCode, b.n.Load())
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	err := b.src.Close()
	if b.red != nil {
		b.red.header(b.resp.Trailer)
	}
	b.once.done(b.resp.StatusCode, b.n.Load())
	return err
}

// done records a request that has ended.
func (f *flight) done(status int, received int64) {
	f.doneHeaders(status, received)
	if f.grant == nil {
		return
	}
	u := f.use()
	u.Status, u.Received, u.Usage = status, received, f.spent(status)
	f.s.record(u)
}

// onceDone records a request once.
type onceDone struct {
	sync.Once
	f *flight
}

func (o *onceDone) done(status int, received int64) { o.Do(func() { o.f.done(status, received) }) }
