package guestproxy

import (
	"context"
	"encoding/base64"
	"errors"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
)

// Bounds on what a guest may answer.
const (
	maxAnswerHeader = 64 << 10
	// answerTimeout bounds the wait for an answer's head. Streams may then last.
	answerTimeout = 60 * time.Second
	bufferSize    = 64 << 10
)

// answerHeaders are the only headers of a guest's that reach a client: a guest
// cannot set cookies, redirect, or say anything else in the daemon's name.
var answerHeaders = map[string]bool{
	"Content-Type": true, "Content-Length": true, "Content-Disposition": true, "Content-Encoding": true,
	"Content-Range": true, "Accept-Ranges": true, "Last-Modified": true, "Etag": true, "Vary": true,
	"Connect-Content-Encoding": true, "Connect-Accept-Encoding": true,
}

// requestHeaders are the only headers of a client's that reach a guest. The
// guest is untrusted: credentials for the daemon are not for it.
var requestHeaders = map[string]bool{
	"Content-Type": true, "Content-Length": true, "Content-Encoding": true, "Accept": true, "Accept-Encoding": true,
	"Range": true, "If-Range": true, "If-Modified-Since": true, "If-None-Match": true, "Authorization": true,
	"Connect-Protocol-Version": true, "Connect-Timeout-Ms": true, "Keepalive-Ping-Interval": true,
}

// Config is what a proxy is made of.
type Config struct {
	// Open opens a raw stream to a sandbox's guest.
	Open func(ctx context.Context, id api.SandboxID) (net.Conn, error)
	// Extension passes the headers of hortus.v1 on, both ways. They are for
	// clients that the daemon trusts with offsets of recorded commands.
	Extension bool
	// Fail answers a request that the guest did not answer as agreed. What is in
	// err is the daemon's own.
	Fail func(w http.ResponseWriter, r *http.Request, id api.SandboxID, err error)
	// Grace is what a client has, from the end of its sandbox on, to take what is
	// left of an answer; 0 is DefaultGrace.
	Grace time.Duration
}

// Proxy passes requests on to guests.
type Proxy struct {
	cfg             Config
	request, answer map[string]bool
	proxy           *httputil.ReverseProxy
}

// New makes a proxy.
func New(cfg Config) *Proxy {
	p := &Proxy{cfg: cfg, request: requestHeaders, answer: answerHeaders}
	if cfg.Extension {
		p.request, p.answer = maps.Clone(requestHeaders), maps.Clone(answerHeaders)
		p.request[envd.HeaderVersion], p.request[envd.HeaderOffset] = true, true
		p.answer[envd.HeaderVersion] = true
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			c, err := cfg.Open(ctx, api.SandboxID(host))
			if err != nil {
				return nil, err
			}
			return Opened(ctx, c), nil
		},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswerHeader,
		ResponseHeaderTimeout:  answerTimeout,
		WriteBufferSize:        bufferSize,
		ReadBufferSize:         bufferSize,
	}
	p.proxy = &httputil.ReverseProxy{
		Transport:     FinalOnly{transport},
		FlushInterval: -1,
		ErrorLog:      DiscardLog(),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host = "http", string(sandboxOf(pr.In.Context()))
			pr.Out.Host = "guest"
			keep(pr.Out.Header, p.request)
			userOnly(pr.Out.Header, pr.In)
			Credentials{}.StripHeader(pr.Out.Header)
		},
		ModifyResponse: p.check,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			id := sandboxOf(r.Context())
			var e *api.Error
			if !errors.As(err, &e) {
				e = api.Errorf(api.KindUnavailable, "the guest of sandbox %s sent an invalid answer", id)
			}
			cfg.Fail(w, r, id, e)
		},
	}
	return p
}

// check refuses what no guest answers, and drops what is not of the wire.
func (p *Proxy) check(resp *http.Response) error {
	if resp.StatusCode < 200 || resp.StatusCode == http.StatusSwitchingProtocols ||
		resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.StatusCode != http.StatusNotModified {
		return api.Errorf(api.KindUnavailable, "the guest sent the invalid status %d", resp.StatusCode)
	}
	if resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && resp.Request.Method != http.MethodHead {
		// Its end could not be distinguished from a cut.
		return api.Errorf(api.KindUnavailable, "the guest's response has no content length")
	}
	keep(resp.Header, p.answer)
	return nil
}

// Serve passes a request on whose URL is the guest's own: its path is one that the
// guest serves. A body that the guest cuts is cut for the client too, visibly.
func (p *Proxy) Serve(w http.ResponseWriter, r *http.Request, id api.SandboxID) {
	if r.Header.Get("Upgrade") != "" {
		p.cfg.Fail(w, r, id, api.Errorf(api.KindInvalid, "upgrades are not supported"))
		return
	}
	if _, err := User(r); err != nil {
		p.cfg.Fail(w, r, id, err)
		return
	}
	watch := NewWatch(http.NewResponseController(w), p.cfg.Grace)
	defer watch.Stop()
	defer EnableFullDuplex(w, r)()
	p.proxy.ServeHTTP(w, r.WithContext(watch.In(context.WithValue(r.Context(), sandboxKey{}, id))))
}

// EnableFullDuplex has a request's body readable while its answer is written. A guest may begin
// to answer before it has all of the request, as it does to one that opens a stream.
// Without this the server reads and closes the body when the answer begins, beneath the
// transport that reads it too and then takes the connection to the guest for broken:
// the client's stream ends, or seems to be silent, for no reason of the guest's.
//
// end must be called before the handler returns: what is left of the body is read there,
// since the server cannot continue after an end of it that comes later.
func EnableFullDuplex(w http.ResponseWriter, r *http.Request) (end func()) {
	rc := http.NewResponseController(w)
	if rc.EnableFullDuplex() != nil {
		return func() {} // HTTP/2 has no need of it
	}
	return func() {
		_ = rc.SetReadDeadline(time.Now().Add(restTimeout))
		_ = r.Body.Close()
		_ = rc.SetReadDeadline(time.Time{}) // it would end the context of the request, which may be passed on again
	}
}

// restTimeout bounds the wait for the rest of a request that was answered.
const restTimeout = 5 * time.Second

type sandboxKey struct{}

func sandboxOf(ctx context.Context) api.SandboxID {
	id, _ := ctx.Value(sandboxKey{}).(api.SandboxID)
	return id
}

func keep(h http.Header, allowed map[string]bool) {
	for k := range h {
		if name := textproto.CanonicalMIMEHeaderKey(k); !allowed[name] && !strings.HasPrefix(name, "X-Metadata-") {
			delete(h, k)
		}
	}
}

// userOnly leaves of an Authorization header the name of the user, which is all that a
// guest needs: a password in it may be an API key.
func userOnly(h http.Header, in *http.Request) {
	user, err := User(in)
	h.Del("Authorization")
	if err == nil && user != "" {
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":")))
	}
}

// DiscardLog returns a log that discards everything: the lines of a proxy quote the guest.
func DiscardLog() *log.Logger { return log.New(discard{}, "", 0) }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
