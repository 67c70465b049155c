package envd

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/guestproxy"
	"hortus.dev/internal/server/preview"
)

const (
	// maxPortHeader bounds the head of what a port answers, in bytes.
	maxPortHeader = 64 << 10
	// portAnswer bounds the wait for that head: long polls are that long.
	portAnswer = 10 * time.Minute

	headerTraffic = "E2b-Traffic-Access-Token"
	headerOrigin  = "Access-Control-Allow-Origin"
)

// secretHeaders are the client's and the daemon's, and never reach a port. Secrets
// under other names are found by what they are: guestproxy.Credentials.
var secretHeaders = []string{headerToken, headerTraffic, "X-Api-Key", headerSandbox, headerPort}

// siteHeaders say something about a whole site to a browser. An address that a
// sandbox shares with others is not its to speak for.
var siteHeaders = []string{"Alt-Svc", "Strict-Transport-Security", "Clear-Site-Data", "Service-Worker-Allowed"}

// servePort serves a request for a port inside a sandbox.
func (d *Server) servePort(w http.ResponseWriter, r *http.Request, t target) {
	row, err := d.cfg.Sandboxes.Get(r.Context(), t.id)
	if err != nil || row.State.Final() {
		absent(w, r, t, api.Sandbox{})
		return
	}
	previews := d.cfg.Previews
	if !t.labelled {
		previews = nil // the address is not the port's own
	}
	if previews != nil && preview.HasTicket(r) && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		if r = r.Clone(r.Context()); !previews.Open(r, row, t.port) {
			private(w, r, t, "This link was used, or has expired")
			return
		}
		t.opened = true
	} else if previews != nil && preview.HasTicket(r) {
		if !previews.Redeem(w, r, row, t.port) {
			private(w, r, t, "This link was used, or has expired")
		}
		return
	}
	got := r.Header.Values(headerTraffic)
	if row.PrivateTraffic && !t.opened && (len(got) != 1 || !d.cfg.Tokens.CheckTraffic(string(t.id), got[0])) && (previews == nil || !previews.Allows(r, t.id, t.port)) {
		private(w, r, t, "This port is private")
		return
	}
	if d.credentials(t.id).In(r.URL.EscapedPath()) {
		refuse(w, http.StatusBadRequest, "the path contains an API key or a token; send it as a header so that programs in the sandbox do not see it")
		return
	}
	if !d.count(w, r, t.id) {
		return
	}
	if row, err = d.running(r.Context(), t.id); err != nil && preview.Browser(r) && !errors.Is(err, errCrowded) {
		absent(w, r, t, row)
		return
	}
	if !d.ensureRunning(w, r, t.id, row.PrivateTraffic) {
		return
	}
	t.listed = w.Header().Get(headerOrigin) != ""
	watch := guestproxy.NewWatch(http.NewResponseController(w), d.cfg.Grace)
	defer watch.Stop()
	defer guestproxy.EnableFullDuplex(w, r)()
	d.ports.ServeHTTP(w, r.WithContext(watch.In(context.WithValue(r.Context(), targetKey{}, t))))
}

// credentials are the secrets that no program of a sandbox may see.
func (d *Server) credentials(id api.SandboxID) guestproxy.Credentials {
	return guestproxy.Credentials{Tokens: []string{d.cfg.Tokens.Envd(string(id)), d.cfg.Tokens.Traffic(string(id))}}
}

type targetKey struct{}

func targetIn(ctx context.Context) target {
	t, _ := ctx.Value(targetKey{}).(target)
	return t
}

// newPorts makes the proxy to ports. What listens there is a program of the
// sandbox's, which may answer whatever it likes: its head is bounded, an answer that
// changes the protocol counts only where the client asked for that, and each request
// has a connection of its own.
func (d *Server) newPorts() *httputil.ReverseProxy {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			t := targetIn(ctx)
			c, err := retryResumed(ctx, d, t.id, func() (net.Conn, error) { return d.cfg.Sandboxes.Dial(ctx, t.id, t.port) })
			if err != nil {
				return nil, err
			}
			return guestproxy.Opened(ctx, c), nil
		},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxPortHeader,
		ResponseHeaderTimeout:  portAnswer,
	}
	return &httputil.ReverseProxy{
		Transport:     guestproxy.FinalOnly{Transport: transport},
		FlushInterval: -1,
		ErrorLog:      guestproxy.DiscardLog(),
		Rewrite: func(pr *httputil.ProxyRequest) {
			t := targetIn(pr.In.Context())
			pr.Out.URL.Scheme, pr.Out.URL.Host = "http", net.JoinHostPort(string(t.id), strconv.Itoa(t.port))
			if pr.Out.Host = pr.In.Host; t.opened {
				// The debugging port of a browser, for one, refuses other names: they would be those of a page.
				pr.Out.Host = net.JoinHostPort("localhost", strconv.Itoa(t.port))
			}
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery // as it was written
			pr.SetXForwarded()
			for _, name := range secretHeaders {
				pr.Out.Header.Del(name)
			}
			d.credentials(t.id).Strip(pr.Out)
			preview.Strip(pr.Out.Header)
			// E2B's client of code interpreters sends the sandbox's token there, for the interpreter to show it to the guest.
			if own := pr.In.Header.Values(headerToken); t.port == envd.CodePort && len(own) == 1 && d.cfg.Tokens.CheckEnvd(string(t.id), own[0]) {
				pr.Out.Header.Set(headerToken, own[0])
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			t := targetIn(resp.Request.Context())
			if resp.StatusCode < 200 && (resp.StatusCode != http.StatusSwitchingProtocols || resp.Request.Header.Get("Upgrade") == "") {
				return errUnasked
			}
			if t.listed { // another program than our interpreter may listen there, and allow cookies or another origin
				maps.DeleteFunc(resp.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Access-Control-") })
			}
			if !t.labelled {
				for _, name := range siteHeaders {
					resp.Header.Del(name)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			t := targetIn(r.Context())
			row, gerr := d.cfg.Sandboxes.Get(context.WithoutCancel(r.Context()), t.id)
			if gerr != nil || row.State != api.SandboxRunning {
				absent(w, r, t, row)
				return
			}
			portFailed(w, r, t, err)
		},
	}
}

var errUnasked = errors.New("the port switched protocols without a request to do so")
