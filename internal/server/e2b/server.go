package e2b

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/body"
	"hortus.dev/internal/server/forward"
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
	TagSnapshot(ctx context.Context, id api.SnapshotID, req api.TagSnapshot) (api.Snapshot, error)
	UntagSnapshot(ctx context.Context, id api.SnapshotID, tag string) (api.Snapshot, error)
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

// Config is what the server leads to. Egress, Policy, Secrets, Events, Builds, Volumes, DefaultInternet, Limits, Domain,
// Aliases and Logger may be left out.
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
	// Events serves lifecycle events and webhooks; without it requests about those are refused.
	Events Events
	// Builds and BuildFiles serve builds of templates; without them those are refused.
	Builds     Builds
	BuildFiles BuildFiles
	// Volumes and VolumeTokens serve requests about volumes; without them those are refused.
	Volumes      Volumes
	VolumeTokens VolumeTokens
	// DefaultInternet is what allow_internet_access is if a client does not say: true in
	// E2B.
	DefaultInternet bool
	// Limits are those of what is made here from this machine's own tools: the wire has
	// no words for them. Zero fields take the default. A template brings its own.
	Limits api.Limits
	// Domain is where ports of sandboxes are reached: PORT-ID.Domain, with a port
	// where it is not that of the scheme. Empty takes it from the address that the
	// client itself used.
	Domain string
	// Aliases are names that clients use for templates that are called otherwise
	// here; nil is DefaultAliases.
	Aliases map[string]string
	// Forward passes requests on to other nodes of a fleet; nil if there is none.
	Forward *forward.Forwarder
	Logger  *slog.Logger
}

// DefaultAliases are E2B's own templates as far as they are here: base is this
// machine's tools, and so is that of code interpreters, which every sandbox has.
func DefaultAliases() map[string]string {
	return map[string]string{"base": api.HostTemplate, "code-interpreter-v1": api.HostTemplate}
}

// sandboxes serves requests about sandboxes.
type sandboxes struct {
	finder
	answers
	limits   api.Limits
	internet bool // what a client that does not say gets
	policy   func(allowInternet *bool, allowOut, denyOut []string) (api.EgressPolicy, error)
	egress   Egress
}

// router registers the handlers and writes their errors.
type router struct {
	mux *http.ServeMux
	log *slog.Logger
	// stores says that what is exhausted is space: 507 instead of 429.
	stores bool
}

// New creates the server's handler.
func New(cfg Config) http.Handler {
	if cfg.Aliases == nil {
		cfg.Aliases = DefaultAliases()
	}
	routes := &router{mux: http.NewServeMux(), log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	find := finder{cfg.Sandboxes, cfg.Forward}
	names := catalog{cfg.Aliases, cfg.Snapshots}
	shape := answers{names, cfg.Tokens, cfg.Domain}
	sandboxes{
		finder: find, answers: shape, limits: cfg.Limits, internet: cfg.DefaultInternet, policy: cfg.Policy, egress: cfg.Egress,
	}.register(routes)
	snapshots{find, shape}.register(routes)
	templates{names, cfg.Limits, cfg.Forward}.register(routes)
	records{find}.register(routes)
	if cfg.Secrets != nil {
		secretStore{cfg.Secrets}.register(routes)
	}
	if cfg.Events != nil {
		lifecycles{cfg.Events, names}.register(routes)
	}
	build := builds{catalog: names, Builds: cfg.Builds, files: cfg.BuildFiles, limits: cfg.Limits, tickets: &tickets{all: map[string]ticket{}}, forward: cfg.Forward}
	if cfg.Builds != nil {
		if cfg.DefaultInternet && cfg.Policy != nil {
			// A policy of the operator's own words, which a request could not have either if it failed.
			if p, err := cfg.Policy(&cfg.DefaultInternet, nil, nil); err == nil {
				build.egress = &p
			}
		}
		build.register(routes)
	}
	files := &router{mux: http.NewServeMux(), log: routes.log, stores: true}
	if cfg.Volumes != nil {
		v := volumes{cfg.Volumes, cfg.VolumeTokens, cfg.Forward}
		v.register(routes)
		v.registerFiles(files)
	}
	missingRoutes(routes.mux, map[string]bool{missingSecrets: cfg.Secrets != nil, missingEvents: cfg.Events != nil, missingVolumes: cfg.Volumes != nil})
	routes.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { routes.fail(w, r, noRoute(r)) })
	known := routes.authenticated(cfg.Keys)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/health" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
		case cfg.Builds != nil && r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, uploadPath):
			// Clients send no API key to the address of an upload.
			if err := build.upload(w, r); err != nil {
				routes.fail(w, r, err)
			}
		case path.Clean(r.URL.Path) != r.URL.Path:
			// The mux would answer with a redirect, which no SDK follows with a body.
			routes.fail(w, r, noRoute(r))
		case cfg.Volumes != nil && strings.HasPrefix(r.URL.Path, contentPath):
			files.mux.ServeHTTP(w, r)
		default:
			known.ServeHTTP(w, r)
		}
	})
}

// handler serves a request. The error that it returns is the answer to it.
type handler func(w http.ResponseWriter, r *http.Request) error

// handle registers a handler and the parameters of its query: one that is there and that
// nobody would honour is an error.
func (to *router) handle(pattern string, h handler, known ...string) {
	to.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := checkParameters(r.URL.RawQuery, known)
		if err == nil {
			err = h(w, r)
		}
		if err != nil {
			to.fail(w, r, err)
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
func (to *router) authenticated(keys Keys) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Values("X-Api-Key")
		p := api.PrincipalOf(r.Context())
		err := error(api.Errorf(api.KindUnauthenticated, "the request must have one API key in the header X-API-KEY"))
		if forward.Arrived(r.Context()) && p.Role != "" {
			err = nil // the node that the client reached has authenticated it
		} else if len(given) == 1 && given[0] != "" && len(given[0]) <= maxKey {
			p, err = keys.Authenticate(r.Context(), given[0])
		}
		if err != nil {
			to.fail(w, r, err)
			return
		}
		ctx := api.WithPatience(api.WithPrincipal(r.Context(), p), patience)
		to.mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// What is missing only if the server was not given it.
const (
	missingSecrets = "secrets"
	missingEvents  = "lifecycle events and webhooks"
	missingVolumes = "volumes"
)

// missing are the parts of the wire that Hortus does not have, by their paths.
var missing = []struct {
	what  string
	paths []string
}{
	{"changes and earlier forms of builds of templates", []string{
		"/templates/", "POST /templates", "/v2/templates/", "POST /v2/templates", "/v3/templates", "/v3/templates/"}},
	{missingVolumes, []string{"/volumes", "/volumes/", "/volumecontent/"}},
	{missingSecrets, []string{"/secrets", "/secrets/"}},
	{"teams", []string{"/teams", "/teams/"}},
	{"API keys and access tokens", []string{"/api-keys", "/api-keys/", "/access-tokens", "/access-tokens/"}},
	{missingEvents, []string{"/events", "/events/"}},
	{"other webhooks than those at /events/webhooks", []string{"/webhooks", "/webhooks/"}},
	{"nodes", []string{"/nodes", "/nodes/", "/admin/"}},
}

// missingRoutes answers what a client asks of those, so that it knows what is missing
// and not only that something is.
func missingRoutes(mux *http.ServeMux, there map[string]bool) {
	for _, m := range missing {
		if there[m.what] {
			continue
		}
		e := wireError{
			Code: http.StatusBadRequest, Word: string(api.KindUnsupported),
			Message: "Hortus does not support " + m.what + " of the E2B API",
		}
		h := func(w http.ResponseWriter, r *http.Request) {
			e := e
			e.Message += fmt.Sprintf(": %s %.100q", r.Method, r.URL.Path)
			body.Answer(w, e.Code, e)
		}
		for _, path := range m.paths {
			mux.HandleFunc(path, h)
			// The mux would answer what lacks the last slash with a redirect.
			if short, ok := strings.CutSuffix(path, "/"); ok && !slices.Contains(m.paths, short) {
				mux.HandleFunc(short, h)
			}
		}
	}
}
