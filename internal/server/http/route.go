package http

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/browser"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/guestproxy"
)

// Route is one entry of the server's table: everything that the server answers to, and
// everything that its OpenAPI document says, is in such an entry.
type Route struct {
	// Method is empty where every method is served.
	Method string
	// Pattern is the path, with {name} for a segment. A slash at its end stands for
	// everything below.
	Pattern string
	// Name is the operation's name, the same for ever. Doc says what it does; its
	// first sentence is the summary.
	Name string
	Doc  string
	// Role is the least that the caller must be: api.RoleUser for everybody with a
	// key, who then sees what belongs to the key's account, or api.RoleAdmin. Open
	// is for what needs no key: it tells nothing of anybody's, or its handler
	// checks a proof of its own. An entry with neither is closed to all.
	Role api.Role
	Open bool
	// Params are parameters of the query, and headers.
	Params []Param
	// In is the zero value of what the body holds, as JSON, and InType its media
	// type where that is another. Optional says that it may be left out.
	In       any
	InType   string
	Optional bool
	// Out, OutType and Status say the same of the answer. OutType may be a stream's:
	// Out is then what each event or line holds. Status 0 means 200.
	Out     any
	OutType string
	Status  int
	// Events, where it is not nil, is what each event holds of the answer to a
	// client that accepts text/event-stream.
	Events any
	// Paged is true if the answer is one page of a list: the route has the parameters of
	// pages, and the header of an answer says where the next one begins.
	Paged bool
	// Creates is true if a request makes something: with an Idempotency-Key, once.
	Creates bool
	// Places is the kind of what a request makes on the node of a fleet that is chosen for it; empty if it is made on the node that the
	// client reached, or that has what the path names.
	Places forward.Kind
	// Waits is true if a request may wait for capacity of the host; a client that accepts lines learns for what.
	Waits bool
	// Stored is true if the rows have the answer: any node gives it if the one that has the thing does not answer.
	Stored  bool
	Handler handler
	// keyed is true if the handler sees to the key itself.
	keyed bool
}

// Param is one parameter of a route beside its path.
type Param struct {
	Name string
	Doc  string
	// Type is the zero value of its type.
	Type   any
	Header bool
	// Required is true if a request without it is refused.
	Required bool
}

// Server is the handler of the HTTP API.
type Server struct {
	Config
	once   idempotency
	mux    *http.ServeMux
	routes []Route
}

// ServeHTTP implements http.Handler. On whose behalf a request is comes with its
// context (api.WithPrincipal); without it only open routes answer.
func (d *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.mux.ServeHTTP(w, r) }

// Routes returns the server's table, in the order of its documentation.
func (d *Server) Routes() iter.Seq[Route] { return slices.Values(d.routes) }

// The handlers of each resource, with what they lead to.
type (
	sandboxes struct {
		Sandboxes Sandboxes
		Snapshots Snapshots
		execs     execs
		guests    guests
		events    eventServer
		Logger    *slog.Logger
		PortURL   func(api.Sandbox, int) (api.PortURL, error)
	}
	execs struct {
		Sandboxes Sandboxes
		guests    guests
		events    eventServer
		sessions  *codexSessions
		Logger    *slog.Logger
	}
	snapshots struct {
		Snapshots Snapshots
		Sandboxes Sandboxes
		images    images
	}
	tasks struct {
		Tasks  Tasks
		events eventServer
		once   idempotency
		Logger *slog.Logger
	}
	provisions struct {
		Provisions Provisions
		Sandboxes  Sandboxes
		Code       Code
		Tokens     Tokens
		URL        string
		once       idempotency
	}
	images struct {
		Images    Images
		Snapshots Snapshots
		Templates Templates
		Logger    *slog.Logger
	}
	egress struct {
		Egress    Egress
		Sandboxes Sandboxes
	}
	system struct {
		System  System
		Upkeep  Upkeep
		Keys    Keys
		Console Console
		Roles   Roles
		once    idempotency
	}
	workspaces struct {
		Workspaces Workspaces
		Logger     *slog.Logger
	}
	repositories struct{ Repositories Repositories }
	secretStore  struct{ Secrets Secrets }
	lessonStore  struct{ Lessons Lessons }
	documents    struct{ Documents Documents }
)

// table lists the server's routes.
func (d *Server) table() []Route {
	c := d.Config
	proxy := guestproxy.New(guestproxy.Config{
		Open:      func(ctx context.Context, id api.SandboxID) (net.Conn, error) { return c.Sandboxes.Guest(ctx, id) },
		Extension: true,
		Fail:      func(w http.ResponseWriter, _ *http.Request, _ api.SandboxID, err error) { fail(w, err) },
	})
	events := eventServer{c.Events, c.Stalled, c.Logger}
	guests := guests{c.Sandboxes, proxy}
	e := execs{Sandboxes: c.Sandboxes, guests: guests, events: events, sessions: &codexSessions{}, Logger: c.Logger}
	i := images{c.Images, c.Snapshots, c.Templates, c.Logger}
	t := tasks{c.Tasks, events, d.once, c.Logger}
	s := system{c.System, c.Upkeep, c.Keys, c.Console, c.Roles, d.once}
	dial := func(ctx context.Context, id api.SandboxID, port int) (net.Conn, error) {
		return c.Sandboxes.Dial(ctx, id, port)
	}
	inside := screens{c.Sandboxes, browser.New(browser.Config{Dial: dial}), events, c.PortURL}
	outgoing := egress{c.Egress, c.Sandboxes}
	return slices.Concat(
		t.runRoutes(),
		provisions{c.Provisions, c.Sandboxes, c.Code, c.Tokens, c.URL, d.once}.provisionRoutes(),
		sandboxes{c.Sandboxes, c.Snapshots, e, guests, events, c.Logger, c.PortURL}.sandboxRoutes(),
		sandboxes{c.Sandboxes, c.Snapshots, e, guests, events, c.Logger, c.PortURL}.codeRoutes(),
		inside.browserRoutes(), inside.ideRoutes(),
		outgoing.egressRoutes(), outgoing.grantRoutes(),
		secretStore{c.Secrets}.secretRoutes(), lessonStore{c.Lessons}.lessonRoutes(), documents{c.Documents}.documentRoutes(), e.execRoutes(), guests.fileRoutes(),
		snapshots{c.Snapshots, c.Sandboxes, i}.snapshotRoutes(),
		workspaces{c.Workspaces, c.Logger}.workspaceRoutes(),
		t.taskRoutes(), t.repoRoutes(), sessions{c.Sessions, events}.sessionRoutes(), plans{c.Plans, events}.planRoutes(), watches{events}.watchRoutes(),
		repositories{c.Repositories}.repositoryRoutes(), repositories{c.Repositories}.hookRoutes(), hooks{c.Hooks}.receiveRoutes(), i.imageRoutes(), i.exportRoutes(), builds{c.Builds, c.BuildFiles, c.Forward.Self()}.buildRoutes(),
		s.upkeepRoutes(), s.keyRoutes(), s.systemRoutes(), fleet{c.Fleet}.fleetRoutes(), d.specRoutes(),
	)
}

// register has the mux serve the table.
func (d *Server) register() {
	d.routes = d.table()
	d.mux = http.NewServeMux()
	for _, rt := range d.routes {
		pattern := rt.Pattern
		if rt.Method != "" {
			pattern = rt.Method + " " + pattern
		}
		d.mux.Handle(pattern, d.guarded(rt))
	}
	d.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if allowed := d.methods(r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			fail(w, statusError{api.Errorf(api.KindInvalid, "%.200s does not accept %.20s: use %s", r.URL.Path, r.Method, strings.Join(allowed, " or ")), http.StatusMethodNotAllowed})
			return
		}
		fail(w, api.Errorf(api.KindNotFound, "unknown route: %s %.200s", r.Method, r.URL.Path))
	})
}

// methods lists the methods that the path of a request is served for.
func (d *Server) methods(r *http.Request) (all []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := d.mux.Handler(&other); pattern != "/" {
			all = append(all, method)
		}
	}
	return all
}

// guarded lets those in who may use the route. Whether what they ask for is theirs
// is for those to say who keep it.
func (d *Server) guarded(rt Route) http.Handler {
	h := rt.Handler
	if rt.In == nil && rt.InType == "" && rt.Method != http.MethodGet {
		h = bare(h)
	}
	if rt.Creates && !rt.keyed {
		h = d.once.creates(h)
	}
	here := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			fail(w, err)
		}
	})
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := admits(rt, api.PrincipalOf(r.Context()))
		if err == nil {
			err = rt.checkQuery(r)
		}
		if err == nil && rt.Method == http.MethodPost && !rt.Creates && len(r.Header.Values(headerKey)) > 0 {
			err = api.Errorf(api.KindInvalid, "%s does not accept %s: it creates nothing that a repetition would create again", rt.Name, headerKey)
		}
		done := false
		if err == nil {
			done, err = d.elsewhere(rt, w, r)
		}
		switch {
		case err != nil:
		case done:
			return
		case rt.Places != "":
			err = d.Forward.Place(w, r, forward.DoorV1, needOf(rt.Places, rt.Name == "createRun"), here)
		default:
			err = h(w, r)
		}
		if err != nil {
			fail(w, err)
		}
	})
	if rt.Waits {
		return telling(serve, d.Stalled)
	}
	return serve
}

// bare serves a route without a body, and refuses one.
func bare(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := requests().None(w, r); err != nil {
			return err
		}
		return h(w, r)
	}
}

// all returns the route's parameters, those of pages too.
func (rt Route) all() []Param {
	if rt.Paged {
		return slices.Concat(rt.Params, pageParams)
	}
	return rt.Params
}

// checkQuery refuses a parameter that the route does not have: it would be ignored. A route for
// everything below a path passes its query on to a program.
func (rt Route) checkQuery(r *http.Request) error {
	if strings.HasSuffix(rt.Pattern, "/") {
		return nil
	}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return api.Errorf(api.KindInvalid, "the query of the request cannot be read: %w", err)
	}
	known := "none"
	var names []string
	for _, p := range rt.all() {
		if !p.Header {
			names = append(names, p.Name)
		}
	}
	if len(names) > 0 {
		known = strings.Join(names, ", ")
	}
	for _, p := range rt.Params {
		if p.Required && given.Get(p.Name) == "" {
			return api.Errorf(api.KindInvalid, "the query parameter %q is missing", p.Name)
		}
	}
	for name := range given {
		if !slices.Contains(names, name) {
			return api.Errorf(api.KindInvalid, "unknown query parameter %.60q", name).WithHint("query parameters of %s: %s", rt.Name, known)
		}
	}
	return nil
}

// admits returns why a caller may not use a route.
func admits(rt Route, p api.Principal) error {
	switch {
	case rt.Open, p.Role == api.RoleAdmin && rt.Role != "", p.Role == api.RoleUser && rt.Role == api.RoleUser:
		return nil
	case p.Role == "":
		return api.Errorf(api.KindUnauthenticated, "this request needs an API key").
			WithHint("send it in the header X-API-Key; create one with hortus key create")
	}
	what, _, _ := strings.Cut(rt.Doc, ". ")
	return api.Errorf(api.KindDenied, "this is allowed for the operator only, and the API key is a user's: %s", strings.ToLower(what[:1])+strings.TrimSuffix(what[1:], ".")).
		WithHint("use the daemon's socket on its machine, or a key with the role %s", api.RoleAdmin)
}

// headerNext holds where the next page of a list begins. The last page has none.
const headerNext = "X-Next-Cursor"

// pageParams are those of every list.
var pageParams = []Param{
	{Name: "limit", Doc: "Maximum number of rows, 1 to 1000 (default 100). A page of large rows can be shorter.", Type: 0},
	{Name: "cursor", Doc: "Start of the page: the header X-Next-Cursor of the previous page. Omit it for the first page.", Type: ""},
}

var allParam = Param{Name: "all", Doc: "Include ended ones (default false).", Type: false}

// pageRequest reads which page is wanted.
func pageRequest(r *http.Request) (p api.PageRequest, err error) {
	q := r.URL.Query()
	p.Cursor = q.Get("cursor")
	raw := q.Get("limit")
	if raw == "" {
		return p, nil
	}
	if p.Limit, err = strconv.Atoi(raw); err != nil || p.Limit < 1 || p.Limit > api.MaxPage {
		return p, api.Errorf(api.KindInvalid, "limit %.20q is not a number between 1 and %d", raw, api.MaxPage)
	}
	return p, nil
}

// page serves one page of a list.
func page[T any](list func(ctx context.Context, r *http.Request, p api.PageRequest) ([]T, string, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, err := pageRequest(r)
		if err != nil {
			return err
		}
		rows, next, err := list(r.Context(), r, p)
		if next != "" {
			w.Header().Set(headerNext, next)
		}
		if rows == nil {
			rows = []T{}
		}
		return reply(w, http.StatusOK, rows, err)
	}
}

// pageAll is page of a list that has what ended too if it is requested.
func pageAll[S, T any](service S, list func(s S, ctx context.Context, all bool, p api.PageRequest) ([]T, string, error)) handler {
	return page(func(ctx context.Context, r *http.Request, p api.PageRequest) ([]T, string, error) {
		all, err := flag(r, "all")
		if err != nil {
			return nil, "", err
		}
		return list(service, ctx, all, p)
	})
}
