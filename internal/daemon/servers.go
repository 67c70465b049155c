package daemon

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"slices"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/export"
	"hortus.dev/internal/daemon/adapter"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/platform/service"
	"hortus.dev/internal/platform/version"
	templatebuild "hortus.dev/internal/sandbox/build"
	"hortus.dev/internal/sandbox/code"
	"hortus.dev/internal/sandbox/durable"
	"hortus.dev/internal/sandbox/provision"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/server/e2b"
	"hortus.dev/internal/server/envd"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/front"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/server/key"
	"hortus.dev/internal/server/mcp"
	"hortus.dev/internal/server/oauth"
	"hortus.dev/internal/server/once"
	"hortus.dev/internal/server/openid"
	"hortus.dev/internal/server/token"
	"hortus.dev/internal/server/webhook"
	"hortus.dev/internal/task/inspect"
)

// guards are what the servers lead to: the parts of the daemon, each behind package access.
type guards struct {
	keys          *key.Keys
	authenticator *access.Authenticator
	rates         *quota.Rates
	quota         *quota.Quota
	// openID is nil if no provider is configured.
	openID *openid.Provider
	// tokens are those of the data planes of sandboxes.
	tokens *token.Minter

	sandboxes  *access.Sandboxes
	plane      *access.DataPlane
	tasks      *access.Tasks
	sessions   *access.Sessions
	plans      *access.Plans
	connected  *access.Repositories
	roles      *access.Roles
	events     *access.Events
	system     *access.System
	keyAdmin   *access.KeyAdmin
	egress     *access.Egress
	workspaces *access.Workspaces
	images     *access.Images
	secrets    *access.Secrets
	templates  *access.Templates

	durable    *durable.Service
	once       *once.Keeper
	provisions *provision.Service
	code       *code.Runner
	builds     *templatebuild.Builder
	buildFiles *templatebuild.Files
}

// openSpaces opens what makes and finds workspaces, which the manager of sandboxes needs.
func (s *System) openSpaces() *durable.Service {
	live := func(ctx context.Context, all bool) ([]api.Sandbox, error) {
		return s.sandboxes.Sandboxes.List(ctx, all)
	}
	s.guards.durable = durable.New(durable.Config{Store: s.workspaces, Layers: s.layers, Rows: s.db, Shared: s.shared, Live: live})
	return s.guards.durable
}

// openGuards opens the guards that tasks need too: keys, tokens and sandboxes.
func (s *System) openGuards(ctx context.Context) (err error) {
	g := &s.guards
	if g.tokens, err = token.Open(s.dir.Path("tokens.key")); err != nil {
		return err
	}
	if s.node != "" {
		secret, err := s.sharedSecret(ctx, "tokens.key")
		if err != nil {
			return err
		}
		g.tokens = token.New(secret)
	}
	g.keys = key.New(key.Config{Rows: s.db, Now: s.db.Now, CheckEgress: s.sandboxes.Policies.CheckEgress, CheckIsolation: s.sandboxes.Backends.Known})
	g.rates = quota.NewRates(s.cfg.Rates)
	m := s.sandboxes
	among := api.OwnerID("")
	if s.node != "" {
		among = s.owner.Owner.ID
	}
	g.quota = quota.New(quota.Config{
		Creator: m.Creator, Planner: m.Planner, Forker: m.Forker, Templates: m.Templates, Sandboxes: m.Sandboxes, Backends: m.Backends, Rates: g.rates, Owner: among,
	})
	g.authenticator = access.NewAuthenticator(g.keys, g.rates)
	g.workspaces = access.NewWorkspaces(g.durable, g.rates)
	g.sandboxes = access.NewSandboxes(access.SandboxesConfig{Lifecycle: m.Sandboxes, Guests: m.Guests, Saver: m.Saver, Pauser: m.Pauser, Quota: g.quota, Rows: s.db, Task: s.db.Task, Rates: g.rates, Workspaces: g.durable, CheckStorage: s.space.CheckOf, Node: s.nodeName})
	g.plane = access.NewDataPlane(m.Sandboxes, m.Guests, g.rates, s.space.CheckOf)
	g.keyAdmin = access.NewKeyAdmin(g.keys)
	g.egress = access.NewEgress(access.EgressConfig{Sandboxes: g.sandboxes, Policies: m.Policies, Decisions: adapter.Decisions{Rows: s.db, Recorder: s.recorder}, Asks: s.asks})
	g.once = once.New(once.Config{Rows: s.db, Now: s.db.Now, Logger: s.log})
	g.provisions = provision.New(provision.Config{Sandboxes: g.sandboxes})
	s.onClose(g.provisions.Close)
	if g.buildFiles, err = templatebuild.OpenFiles(templatebuild.FilesConfig{Dir: s.dir.Path("builds"), CheckSpace: s.space.CheckOf}); err != nil {
		return err
	}
	g.builds = templatebuild.New(templatebuild.Config{Sandboxes: g.sandboxes, Connections: g.egress, Images: access.NewImages(s.images), Files: g.buildFiles, Contents: s.tools().Contents,
		Here: func(ctx context.Context, snapshot api.Snapshot) bool { return s.elsewhere(ctx, snapshot.Owner) == "" }})
	s.onClose(g.builds.Close)
	g.code = code.New(g.sandboxes)
	return nil
}

// openServers opens the other guards.
func (s *System) openServers(ctx context.Context) (err error) {
	g := &s.guards
	s.keeper = s.newKeeper()
	g.tasks = access.NewTasks(adapter.Engine{Engine: s.tasks, Rows: s.db, Node: s.nodeName}, s.sandboxes.Backends, g.rates)
	g.sessions = access.NewSessions(s.sessions, g.tasks)
	g.plans = access.NewPlans(s.plans, g.tasks)
	inspector, err := inspect.New(inspect.Config{Cache: s.repositories, OffLimits: s.cfg.Policy.OffLimits})
	if err != nil {
		return err
	}
	g.connected = access.NewRepositories(s.connected, s.hooks, func(ctx context.Context, r api.Repository) (api.RepositoryDetected, error) {
		found, err := inspector.Inspect(ctx, r.URL, r.Commit)
		found.Policy = s.forges.Policy()
		return found, err
	})
	g.images = access.NewImages(s.images)
	g.secrets = access.NewSecrets(s.secrets)
	g.templates = access.NewTemplates(export.Templates{Images: s.images, Snapshots: s.snapshots}, g.sandboxes)
	g.roles = access.NewRoles(adapter.Roles{Models: s.models})
	g.events = access.NewEvents(s.events, g.sandboxes, g.tasks, g.sessions, g.plans)
	g.system = access.NewSystem(status{s}, g.sandboxes)
	g.openID, err = s.newOpenID(ctx)
	return err
}

// httpServer creates the server of the HTTP API, for the socket and for TCP.
func (s *System) httpServer(console httpapi.Console) *httpapi.Server {
	g := s.guards
	return httpapi.New(httpapi.Config{
		Sandboxes: g.sandboxes, Snapshots: g.sandboxes, Tasks: g.tasks, Roles: g.roles, Events: g.events,
		System: g.system, Upkeep: g.system, Keys: g.keyAdmin, Logger: s.log,
		Once: g.once, Provisions: g.provisions, Code: g.code, Tokens: g.tokens, PortURL: s.portURL, Console: console,
		Forward: s.forwarder, Fleet: access.NewFleet(s.fleetOperations()),
		Egress: g.egress, Secrets: g.secrets, Lessons: access.NewLessons(s.db), Documents: access.NewDocuments(s.documents), Repositories: g.connected, Hooks: s.hooks, Workspaces: g.workspaces, Sessions: g.sessions, Plans: g.plans, Images: g.images, Templates: g.templates, Builds: g.builds, BuildFiles: g.buildFiles,
	})
}

// oauthServer creates what clients of coding agents' tools sign in at; nil if there is no public URL.
func (s *System) oauthServer(ctx context.Context) (*oauth.Server, error) {
	if s.cfg.Front.PublicURL == "" {
		return nil, nil
	}
	secret, err := s.sharedSecret(ctx, "oauth.key")
	if err != nil {
		return nil, err
	}
	dial, roots, err := s.publicHosts()
	if err != nil {
		return nil, err
	}
	return oauth.New(oauth.Config{URL: s.cfg.Front.PublicURL, Secret: secret, Use: s.used("code of a client"), Verify: s.guards.authenticator.Authenticate, Roots: roots, Dial: dial, Now: s.db.Now})
}

// publicHosts returns what connects to public hosts by the rules of egress, and the authorities that they may have.
func (s *System) publicHosts() (dial func(ctx context.Context, host string, port int) (net.Conn, error), roots *x509.CertPool, err error) {
	dialer, err := s.cfg.Egress.Dialer()
	if err != nil {
		return nil, nil, err
	}
	roots, err = s.cfg.Egress.Roots()
	return func(ctx context.Context, host string, port int) (net.Conn, error) {
		c, _, err := dialer.Dial(ctx, host, port, false)
		return c, err
	}, roots, err
}

// openWebhooks begins to deliver lifecycle events.
func (s *System) openWebhooks(context.Context) error {
	dial, roots, err := s.publicHosts()
	if err != nil {
		return err
	}
	s.webhooks = webhook.New(webhook.Config{Rows: s.db, Now: s.db.Now, Dial: dial, Roots: roots, Encode: e2b.EncodeEvent, Lead: s.leader("webhooks"), Logger: s.log})
	s.onClose(s.webhooks.Close)
	return nil
}

// mcpServer creates the server of coding agents, and the server of the API inside the process that its tools use.
func (s *System) mcpServer(v1 http.Handler, challenge string) (http.Handler, service.Server) {
	handler, inside, on := mcp.NewHandler(mcp.HandlerConfig{
		Server: mcp.New(mcp.Config{Version: version.Describe().Version, Logger: s.log}), API: v1, Fail: httpapi.Fail, Challenge: challenge,
	})
	return handler, service.Server{Server: inside, Listener: on}
}

// planeServer creates the server of the data plane of sandboxes.
func (s *System) planeServer(at *address) http.Handler {
	g := s.guards
	return s.telemetry.HTTP("envd", envd.New(envd.Config{
		Sandboxes: g.plane, Tokens: g.tokens, Previews: at.previews, Forward: s.forwarder, Now: s.db.Now, Logger: s.log, Grace: s.cfg.Front.Bounds.WithDefaults().Grace,
	}))
}

// openFront opens the TCP listener. A node whose address is taken does not join the fleet.
func (s *System) openFront(ctx context.Context) (err error) {
	s.on, err = front.Open(ctx, s.cfg.Front)
	s.onClose(func(context.Context) error { s.on.Close(); return nil })
	return err
}

// clientServers are those that every TCP listener has first: the data plane, health checks, and the HTTP API.
func (s *System) clientServers(plane, v1 http.Handler) []front.Server {
	return []front.Server{
		{Takes: envd.Claims, Handler: plane, AnyOrigin: true, Listed: envd.Guest},
		{Takes: front.Operational, Handler: s.operations(http.HandlerFunc(front.NotFound)), Keyed: true},
		{Takes: front.Below("/v1/"), Handler: v1, Keyed: true, Sessions: true},
	}
}

// controlServer creates the server of E2B's API.
func (s *System) controlServer() http.Handler {
	g := s.guards
	return s.telemetry.HTTP("e2b", e2b.New(e2b.Config{
		Sandboxes: g.sandboxes, Snapshots: g.sandboxes, Keys: g.authenticator, Tokens: g.tokens,
		Limits: s.cfg.Usual.Limits, Domain: s.cfg.Front.Domain, Logger: s.log, Builds: g.builds, BuildFiles: g.buildFiles,
		Volumes: access.NewVolumes(s.volumes, g.rates), VolumeTokens: g.tokens,
		Egress: g.egress, Secrets: g.secrets, Events: s.webhooks, Policy: policy.FromE2B, DefaultInternet: s.cfg.Egress.E2BInternet,
		Forward: s.forwarder,
	}))
}

// servers lists the servers of the TCP listener in their order.
func (s *System) servers(doors map[forward.Door]http.Handler, pages []front.Server, agents http.Handler, signIn *oauth.Server) []front.Server {
	tools := front.Server{Takes: func(r *http.Request) bool { return r.URL.Path == "/mcp" }, Handler: s.telemetry.HTTP("mcp", agents), Keyed: true, OwnName: true}
	var all []front.Server
	if signIn != nil {
		tools.Key, tools.Challenge = signIn.Key, signIn.Challenge()
		// A client's page leads a browser here. The server checks itself where the answer of a person comes from.
		all = append(all, front.Server{Takes: signIn.Takes, Handler: s.telemetry.HTTP("oauth", signIn), AnyOrigin: true})
	}
	return slices.Concat(all, s.clientServers(doors[forward.DoorSandbox], doors[forward.DoorV1]), pages, []front.Server{tools, {Takes: front.Below("/"), Handler: doors[forward.DoorE2B], Fail: e2b.Fail}})
}
