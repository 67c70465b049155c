package http

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
)

// Bounds on what a guest may answer.
const (
	maxAnswerHeader = 64 << 10
	// answerTimeout bounds the wait for an answer's head. Streams may then last.
	answerTimeout = 60 * time.Second
)

// answerHeaders are the only headers of a guest's that reach a client: a guest
// cannot set cookies, redirect, or say anything else in the daemon's name.
var answerHeaders = map[string]bool{
	"Content-Type": true, "Content-Length": true, "Content-Disposition": true, "Content-Encoding": true,
	"Content-Range": true, "Accept-Ranges": true, "Last-Modified": true, "Etag": true,
	"Connect-Content-Encoding": true, "Connect-Accept-Encoding": true, "Hortus-Version": true,
}

// requestHeaders are the only headers of a client's that reach a guest. The
// guest is untrusted: credentials for the daemon are not for it.
var requestHeaders = map[string]bool{
	"Content-Type": true, "Content-Length": true, "Content-Encoding": true, "Accept": true, "Accept-Encoding": true,
	"Range": true, "If-Range": true, "If-Modified-Since": true, "If-None-Match": true, "Authorization": true,
	"Connect-Protocol-Version": true, "Connect-Timeout-Ms": true, "Keepalive-Ping-Interval": true,
	"Hortus-Version": true, "Hortus-Offset": true,
}

// newProxy makes the data plane's proxy. Each request gets a stream of its own to
// the guest, so that nothing of one answer can be taken for another's.
func (d *door) newProxy() http.Handler {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			c, err := d.Sandboxes.Guest(ctx, api.SandboxID(host))
			if err != nil {
				return nil, err
			}
			return &asked{Conn: c, open: make(chan struct{})}, nil
		},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswerHeader,
		ResponseHeaderTimeout:  answerTimeout,
		WriteBufferSize:        64 << 10,
		ReadBufferSize:         64 << 10,
	}
	proxy := &httputil.ReverseProxy{
		Transport:     finalOnly{transport},
		FlushInterval: -1,
		ErrorLog:      log.New(discard{}, "", 0),
		Rewrite: func(pr *httputil.ProxyRequest) {
			id := pr.In.PathValue("id")
			prefix := "/v1/sandboxes/" + id + "/envd"
			pr.Out.URL.Scheme, pr.Out.URL.Host = "http", string(sandboxOf(pr.In.Context()))
			pr.Out.URL.Path = strings.TrimPrefix(pr.In.URL.Path, prefix)
			pr.Out.URL.RawPath = strings.TrimPrefix(pr.In.URL.EscapedPath(), prefix)
			pr.Out.Host = "guest"
			keep(pr.Out.Header, requestHeaders)
		},
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode < 200 || resp.StatusCode == http.StatusSwitchingProtocols ||
				resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.StatusCode != http.StatusNotModified {
				return api.Errorf(api.KindUnavailable, "the guest answered %d, which no guest does", resp.StatusCode)
			}
			if resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && resp.Request.Method != http.MethodHead {
				// Its end could not be told from a cut.
				return api.Errorf(api.KindUnavailable, "the guest's answer has no length")
			}
			keep(resp.Header, answerHeaders)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			var e *api.Error
			if !errors.As(err, &e) {
				e = api.Errorf(api.KindUnavailable, "the guest of sandbox %s did not answer as agreed", sandboxOf(r.Context()))
			}
			fail(w, e)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := d.sandboxID(r)
		if err != nil {
			fail(w, err)
			return
		}
		if _, err := d.Sandboxes.Get(r.Context(), id); err != nil {
			fail(w, err)
			return
		}
		if r.Header.Get("Upgrade") != "" {
			fail(w, api.Errorf(api.KindInvalid, "the guest's wire has no upgrades"))
			return
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sandboxKey{}, id)))
	})
}

// finalOnly takes from a guest's answer what a reverse proxy would pass on beside
// the final head and the body: informational answers, of which there could be any
// number, and trailers. Both hold headers of the guest's choice.
type finalOnly struct{ rt http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f finalOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.rt.RoundTrip(r.WithContext(untraced{r.Context()}))
	if err != nil {
		return nil, err
	}
	// Trailers are written into the original once the body has been read.
	out := *resp
	out.Trailer = nil
	return &out, nil
}

// untraced hides the proxy's hook for informational answers. Without one the
// transport drops them, and bounds them like headers.
type untraced struct{ context.Context }

// Value implements context.Context.
func (c untraced) Value(key any) any {
	v := c.Context.Value(key)
	if _, ok := v.(*httptrace.ClientTrace); ok {
		return nil
	}
	return v
}

// asked is a connection that says nothing before it was spoken to: what comes
// earlier would be taken for noise on an idle connection, which the transport
// writes into the daemon's log.
type asked struct {
	net.Conn
	once sync.Once
	open chan struct{} // closed by the first Write, or by Close
}

// Read implements net.Conn.
func (a *asked) Read(p []byte) (int, error) {
	<-a.open
	return a.Conn.Read(p)
}

// Write implements net.Conn.
func (a *asked) Write(p []byte) (int, error) {
	defer a.once.Do(func() { close(a.open) })
	return a.Conn.Write(p)
}

// Close implements net.Conn.
func (a *asked) Close() error {
	a.once.Do(func() { close(a.open) })
	return a.Conn.Close()
}

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

// discard drops the proxy's own log lines: they quote the guest.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
