package envd

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/guestproxy"
	"hortus.dev/internal/server/preview"
)

// Sandboxes is what the server asks of sandboxes. It is asked as the operator, for
// the sandbox whose token was shown, or whose ports are public, alone.
type Sandboxes interface {
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// Count counts a request for a sandbox; KindExhausted if its account has too many in service.
	Count(ctx context.Context, id api.SandboxID) error
	List(ctx context.Context, all bool) ([]api.Sandbox, error)
	// Wake resumes a sandbox if it is paused, and moves its deadline so that it can answer.
	Wake(ctx context.Context, id api.SandboxID) error
	// StartExec runs a command and streams it; the command is recorded and
	// continues when the stream is closed.
	StartExec(ctx context.Context, id api.SandboxID, req api.ExecRequest) (ExecStream, error)
	AttachExec(ctx context.Context, id api.SandboxID, exec api.ExecID, offset int64) (ExecStream, error)
	// ExecOf finds the recorded command that runs as a process.
	ExecOf(id api.SandboxID, pid int) (api.ExecID, bool)
	// Upload refuses a file of about so many bytes that the account of the sandbox has no space for.
	Upload(ctx context.Context, id api.SandboxID, bytes int64) error
	// Guest opens a raw stream to the guest, Dial one to a port inside.
	Guest(ctx context.Context, id api.SandboxID) (net.Conn, error)
	Dial(ctx context.Context, id api.SandboxID, port int) (net.Conn, error)
}

// ExecStream is a command's events. Next gives io.EOF after the end.
type ExecStream = guestproxy.ExecStream

// Tokens makes and checks the tokens of sandboxes. Checks take the same time
// whatever was shown. An empty token is never right.
type Tokens interface {
	// Envd is the token of a sandbox's commands and files.
	Envd(id string) string
	CheckEnvd(id, got string) bool
	// Traffic is the token of a sandbox's ports.
	Traffic(id string) string
	CheckTraffic(id, got string) bool
}

// Config is what a server leads to.
type Config struct {
	Sandboxes Sandboxes
	Tokens    Tokens
	Logger    *slog.Logger
	// Previews checks tickets and cookies of private ports; nil is none.
	Previews *preview.Previews
	// Forward passes requests on to other nodes of a fleet; nil if there is none.
	Forward *forward.Forwarder
	// Now is the clock of signatures and of the bounds on wrong ones; nil is
	// time.Now.
	Now func() time.Time
	// Grace is what a client has, from the end of its sandbox on, to take what is
	// left of an answer; 0 is guestproxy.DefaultGrace.
	Grace time.Duration
}

// Server is the data plane's handler.
type Server struct {
	cfg   Config
	log   *slog.Logger
	now   func() time.Time
	guest *guestproxy.Proxy
	ports *httputil.ReverseProxy
	wakes wakes
	gaps  gaps
	wrong wrong
	// looking bounds the searches for the sandbox of a signature.
	looking chan struct{}
}

// New makes the server.
func New(cfg Config) *Server {
	d := &Server{cfg: cfg, log: cfg.Logger, now: cfg.Now, looking: make(chan struct{}, maxLooking)}
	d.log = cmp.Or(d.log, slog.New(slog.DiscardHandler))
	if d.now == nil {
		d.now = time.Now
	}
	d.guest = guestproxy.New(guestproxy.Config{Open: d.open, Fail: d.guestFailed, Grace: cfg.Grace})
	d.ports = d.newPorts()
	return d
}

// open opens a stream to a guest.
func (d *Server) open(ctx context.Context, id api.SandboxID) (net.Conn, error) {
	return retryResumed(ctx, d, id, func() (net.Conn, error) { return d.cfg.Sandboxes.Guest(ctx, id) })
}

// ServeHTTP serves a request that Claims.
func (d *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, err := targetOf(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	outside := r // the node of the sandbox checks tokens as this one does
	r = r.WithContext(api.WithPrincipal(r.Context(), api.Operator()))
	switch {
	case r.Method == http.MethodConnect:
		refuse(w, http.StatusMethodNotAllowed, "this server is not a proxy")
	case t.signed:
		d.serveSigned(w, r)
	case !t.id.Valid():
		notFound(w, t.id) // it never was one
	case d.elsewhere(w, outside, t):
	case t.port == envd.GuestPort:
		d.serveGuest(w, r, t.id)
	default:
		d.servePort(w, r, t)
	}
}

// elsewhere has the node that has the sandbox serve a request. It is false if this node serves it.
func (d *Server) elsewhere(w http.ResponseWriter, r *http.Request, t target) bool {
	done, err := d.cfg.Forward.Pass(w, r, forward.About{Door: forward.DoorSandbox, Kind: forward.Sandbox, ID: string(t.id)})
	switch {
	case err == nil || api.KindOf(err) == api.KindNotFound:
		return done
	case preview.Browser(r):
		preview.Page{Status: http.StatusBadGateway, Title: "The sandbox cannot be reached", Text: "The machine that has sandbox " + string(t.id) + " does not answer.",
			Next: "This page reloads itself.", Reload: true}.Write(w)
	default:
		message := err.Error()
		if hint := api.HintOf(err); hint != "" {
			message += "; " + hint
		}
		problem{Sandbox: t.id, Message: message, Code: http.StatusBadGateway}.write(w)
	}
	return true
}
