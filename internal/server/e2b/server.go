package e2b

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path"
	"time"

	"hortus.dev/api"
)

// Sandboxes is what the server asks of sandboxes. Every call is made for the principal
// of its context; what that one may not see fails with KindNotFound.
type Sandboxes interface {
	// Outline returns what Create would make, and fails as it would.
	Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error)
	Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// Page lists those that have not ended, or all, the newest first. next is where the
	// next page begins, "" after the last.
	Page(ctx context.Context, all bool, p api.PageRequest) (rows []api.Sandbox, next string, err error)
	Kill(ctx context.Context, id api.SandboxID) (api.Sandbox, api.Proof, error)
	// SetTTL moves the deadline to ttl from now, Extend only to what is later.
	SetTTL(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error)
	Extend(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, error)
	// Connect waits for what is being done to the sandbox, resumes it where it is
	// paused and reports whether it had to.
	Connect(ctx context.Context, id api.SandboxID, ttl time.Duration) (s api.Sandbox, resumed bool, err error)
	// PauseToDisk keeps memory and files, PauseFiles what was written alone.
	PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	PauseFiles(ctx context.Context, id api.SandboxID) (api.Sandbox, error)
	// ExecPage lists commands, the newest first, Samples what was used, the oldest
	// first.
	ExecPage(ctx context.Context, id api.SandboxID, p api.PageRequest) (rows []api.Exec, next string, err error)
	Samples(ctx context.Context, id api.SandboxID) ([]api.Stats, error)
}

// Snapshots is what the server asks of saved sandboxes, on the same terms.
type Snapshots interface {
	Snapshot(ctx context.Context, id api.SandboxID, req api.CreateSnapshot) (api.Snapshot, error)
	// Fork returns what there is also when some of the children failed.
	Fork(ctx context.Context, id api.SandboxID, req api.ForkSandbox) (api.ForkResult, error)
	// SnapshotPage lists those that are there, or all that ever were: the account's own,
	// the newest first, then what is for everybody.
	SnapshotPage(ctx context.Context, all bool, p api.PageRequest) (rows []api.Snapshot, next string, err error)
	GetSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
	RemoveSnapshot(ctx context.Context, id api.SnapshotID) (api.Snapshot, error)
}

// Keys tells whose a key is: KindUnauthenticated for one that does not work.
type Keys interface {
	Authenticate(ctx context.Context, key string) (api.Principal, error)
}

// Tokens makes the tokens that a sandbox's data plane is opened with. They are the
// same for as long as the sandbox lives.
type Tokens interface {
	Envd(id string) string
	Traffic(id string) string
}

// EnvdVersion is the version of envd that answers give: what the data plane does is
// what SDKs expect of that one.
const EnvdVersion = "0.6.13"

// Config is what the server leads to. Egress, Policy, Secrets, DefaultInternet, Isolation, Limits, Domain,
// Aliases, Logger and Now may be left out.
type Config struct {
	Sandboxes Sandboxes
	Snapshots Snapshots
	Keys      Keys
	Tokens    Tokens
	// Egress and Policy serve requests about outgoing connections; without them requests
	// that open any are refused. Policy maps what a client requests to a policy. A nil
	// allowInternet is true.
	Egress Egress
	Policy func(allowInternet *bool, allowOut, denyOut []string) (api.EgressPolicy, error)
	// Secrets serve requests about secrets; without them those are refused.
	Secrets Secrets
	// DefaultInternet is what allow_internet_access is if a client does not say: true in
	// E2B.
	DefaultInternet bool
	// Isolation is the backend of what is made here, which the wire has no word for;
	// empty is "auto".
	Isolation string
	// Limits are those of what is made here from this machine's own tools: the wire has
	// no words for them either. Zero fields take the default. A template brings its own.
	Limits api.Limits
	// Domain is where ports of sandboxes are reached: PORT-ID.Domain, with a port
	// where it is not that of the scheme. Empty takes it from the address that the
	// client itself used.
	Domain string
	// Aliases are names that clients use for templates that are called otherwise
	// here; nil is DefaultAliases.
	Aliases map[string]string
	Logger  *slog.Logger
	Now     func() time.Time
}

// DefaultAliases are E2B's own templates as far as they are here: base is this
// machine's tools.
func DefaultAliases() map[string]string { return map[string]string{"base": api.HostTemplate} }

// server is the handler.
type server struct {
	Config
	log *slog.Logger
}

// The handlers of each resource.
type (
	sandboxes struct{ *server }
	snapshots struct{ *server }
	templates struct{ *server }
	records   struct{ *server }

	secretStore struct{ *server }
)

// New creates the server's handler.
func New(cfg Config) http.Handler {
	d := &server{Config: cfg, log: cfg.Logger}
	d.log = cmp.Or(d.log, slog.New(slog.DiscardHandler))
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Aliases == nil {
		d.Aliases = DefaultAliases()
	}
	mux := http.NewServeMux()
	sandboxes{d}.sandboxRoutes(mux)
	snapshots{d}.snapshotRoutes(mux)
	templates{d}.templateRoutes(mux)
	records{d}.recordRoutes(mux)
	if d.Secrets != nil {
		secretStore{d}.secretRoutes(mux)
	}
	missingRoutes(mux, d.Secrets != nil)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { d.fail(w, r, noRoute(r)) })
	known := d.authenticated(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/health" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
		case path.Clean(r.URL.Path) != r.URL.Path:
			// The mux would answer with a redirect, which no SDK follows with a body.
			d.fail(w, r, noRoute(r))
		default:
			known.ServeHTTP(w, r)
		}
	})
}

// handler serves a request. The error that it returns is the answer to it.
type handler func(w http.ResponseWriter, r *http.Request) error

// handle registers a handler and the parameters of its query: one that is there and that
// nobody would honour is an error.
func (d *server) handle(mux *http.ServeMux, pattern string, h handler, known ...string) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := checkParameters(r.URL.RawQuery, known)
		if err == nil {
			err = h(w, r)
		}
		if err != nil {
			d.fail(w, r, err)
		}
	})
}

func noRoute(r *http.Request) error {
	return api.Errorf(api.KindNotFound, "unknown route: %s %.200q", r.Method, r.URL.Path)
}

// patience is how long a request waits for capacity on the host: SDKs give up after 60
// seconds, and would not hear why.
const patience = 50 * time.Second

// maxKey bounds a key, in bytes.
const maxKey = 256

// authenticated lets those in whose key is known.
func (d *server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys := r.Header.Values("X-Api-Key")
		var p api.Principal
		err := error(api.Errorf(api.KindUnauthenticated, "the request must have one API key in the header X-API-KEY"))
		if len(keys) == 1 && keys[0] != "" && len(keys[0]) <= maxKey {
			p, err = d.Keys.Authenticate(r.Context(), keys[0])
		}
		if err != nil {
			d.fail(w, r, err)
			return
		}
		ctx := api.WithPatience(api.WithPrincipal(r.Context(), p), patience)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
