package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/daemon/fleet"
	"hortus.dev/internal/platform/secretfile"
	"hortus.dev/internal/platform/service"
	"hortus.dev/internal/platform/version"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/server/access"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/front"
	httpapi "hortus.dev/internal/server/http"
	"hortus.dev/internal/server/peer"
	"hortus.dev/internal/store"
)

// maxNodeName is the maximum length of the name of a node.
const maxNodeName = 63

// check refuses a node that others could not reach.
func (c FleetConfig) check(s Store) error {
	switch {
	case c.Listen != "" && s.URL == "":
		return api.Errorf(api.KindInvalid, "fleet.listen is set, but the rows are in a file of the data directory, which other nodes cannot read").
			WithHint("set store.url to the Postgres database of the fleet, or remove fleet.listen")
	case c.Address != "" && c.Listen == "":
		return api.Errorf(api.KindInvalid, "fleet.address is set, but fleet.listen is not").WithHint("set fleet.listen, for example to :7071")
	case len(c.Name) > maxNodeName || strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") != "":
		return api.Errorf(api.KindInvalid, "fleet.name: %.100q is not a name of letters, digits, dashes and dots, %d at most", c.Name, maxNodeName)
	}
	for _, address := range []string{c.Listen, c.Address} {
		if address == "" {
			continue
		}
		host, port, err := net.SplitHostPort(address)
		if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || address == c.Address && host == "" {
			return api.Errorf(api.KindInvalid, "fleet.listen, fleet.address: %.100q is not an address of the form HOST:PORT", address)
		}
	}
	return nil
}

// openFleet joins the nodes that share the database. Without one it does nothing.
func (s *System) openFleet(ctx context.Context) error {
	if s.node == "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = string(s.node)
	}
	c := s.cfg.Fleet
	address := ""
	if c.Listen != "" {
		if s.nodes, err = forward.Listen(ctx, c.Listen); err != nil {
			return api.Errorf(api.KindConflict, "fleet.listen: %w", err).WithHint("use another address in fleet.listen")
		}
		s.onClose(func(context.Context) error { s.nodes.Close(); return nil })
		address = cmp.Or(c.Address, reachable(s.nodes.Addr(), host))
	}
	var isolations []string
	for _, r := range s.sandboxes.Backends.Reports(ctx) {
		if _, starts := r.Has(api.CapStart); starts {
			isolations = append(isolations, r.Backend)
		}
	}
	var mover fleet.Mover
	archive := ""
	if s.archive != nil {
		mover, archive = s.sandboxes.Mover, s.archive.Blobs.String()
	}
	if s.joining != nil {
		s.joining()
	}
	s.fleet, err = fleet.Join(ctx, fleet.Config{
		Node: s.node, Owner: s.owner.Owner.ID, Name: cmp.Or(c.Name, host), Address: address, Rows: s.db, Logger: s.log,
		Sandbox: s.sandboxes.Sandboxes.Get,
		Template: func(ctx context.Context, account, name string) (api.Snapshot, error) {
			if id := api.SnapshotID(name); id.Valid() {
				return s.db.Snapshot(ctx, id)
			}
			return s.snapshots.Template(ctx, account, name)
		},
		Capacity: func(context.Context) api.NodeCapacity { return s.capacity(isolations) },
		Mover:    mover, Archive: archive, Work: work{s}, Resume: s.resumeAnywhere,
		Reach: func(ctx context.Context, to forward.Node) error {
			return s.forwarder.Ask(ctx, to, http.MethodGet, "/v1/info")
		},
		Moved: func(id api.SandboxID, from, to string) {
			s.facts().Append(context.WithoutCancel(ctx), api.Stream{Kind: api.StreamSandbox, ID: string(id)}, api.EventSandboxState,
				api.SandboxStateEvent{State: api.SandboxPaused, Reason: "moved from node " + from + " to node " + to})
		},
		Kill: func(ctx context.Context, id api.SandboxID) error {
			_, _, err := s.sandboxes.Sandboxes.Kill(ctx, id)
			return err
		},
		Lost: func(err error) {
			s.log.Error("this daemon is no node of the fleet any more; stopping and leaving its sandboxes to the next daemon", "error", err)
			_ = s.service.StopKeeping(context.Background(), true) // with force it cannot fail
		},
	})
	if err != nil {
		return err
	}
	s.joined.Store(s.fleet)
	s.onClose(s.fleet.Close)
	s.forwarder = forward.New(forward.Config{Self: s.node, Directory: s.fleet, Choose: s.fleet.Choose, Room: s.fleet.Room, Draining: s.fleet.Draining, TLS: s.fleet.Identity().Client, Logger: s.log})
	s.onClose(func(context.Context) error { s.forwarder.Close(); return nil })
	return nil
}

// moves returns what moves sandboxes to other nodes as this daemon stops; nil if none can resume them.
func (s *System) moves() func(context.Context) {
	if s.fleet == nil || s.archive == nil {
		return nil
	}
	return func(ctx context.Context) {
		began := time.Now()
		n, err := s.fleet.Evacuate(ctx)
		left, seconds := s.sandboxes.Alive(), time.Since(began).Round(100*time.Millisecond).Seconds()
		switch {
		case err != nil:
			s.log.Warn("sandboxes could not all be moved to other nodes", "moved", n, "left", left, "seconds", seconds, "error", err)
		case n+left > 0:
			s.log.Info("moved sandboxes to other nodes", "moved", n, "left", left, "seconds", seconds)
		}
	}
}

// resumeAnywhere resumes a sandbox on the node that has it.
func (s *System) resumeAnywhere(ctx context.Context, id api.SandboxID) error {
	at, err := s.fleet.Locate(ctx, forward.Sandbox, string(id), true)
	switch {
	case err != nil:
		return err
	case at.Here:
		_, err := s.sandboxes.Sandboxes.Resume(ctx, id)
		return err
	case at.Silent:
		return api.Errorf(api.KindUnavailable, "node %s does not answer", at.Node.Name)
	}
	return s.forwarder.Ask(ctx, at.Node, http.MethodPost, "/v1/sandboxes/"+string(id)+"/resume")
}

// followsTask reports which tasks this daemon tells forges about: those that it runs, and the
// ended ones that their daemon did not tell about if this one leads. It is nil if it is the only daemon.
func (s *System) followsTask() func(context.Context, api.Task) bool {
	if s.node == "" {
		return nil
	}
	leads := s.leader("webhooks of forges")
	return func(ctx context.Context, t api.Task) bool {
		if t.Owner == s.owner.Owner.ID {
			return true
		}
		is, err := leads(ctx)
		return t.State == api.TaskDone && is && err == nil
	}
}

// holds returns an error if something that this node has can be another's, for a request that is about more than this process.
func (s *System) holds(r *http.Request) error {
	if s.fleet == nil || front.Operational(r) || r.URL.Path == "/v1/stop" {
		return nil
	}
	return s.fleet.Holds()
}

// holding serves requests that holds has no error for.
func (s *System) holding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.holds(r); err != nil {
			httpapi.Refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// missing lists what the daemon lacks to serve.
func (s *System) missing() []string {
	if s.fleet != nil {
		if err := s.fleet.Holds(); err != nil {
			return []string{"database: " + err.Error()}
		}
	}
	return s.service.Missing()
}

// fleetOperations returns the nodes for commands; nil if this daemon is none.
func (s *System) fleetOperations() access.Nodes {
	if s.fleet == nil {
		return nil
	}
	return s.fleet
}

// reachable is the address of a listener for other machines: that of a listener on all addresses begins with the name of this one.
func reachable(a net.Addr, host string) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return a.String()
	}
	if !tcp.IP.IsUnspecified() {
		host = tcp.IP.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// maxTemplates bounds the names of templates in the row of a node.
const maxTemplates = 200

// capacity says what this node has.
func (s *System) capacity(isolations []string) api.NodeCapacity {
	g := s.gate.State()
	out := api.NodeCapacity{
		MemoryBudget: g.MemoryBudget, MemoryPromised: g.Memory, CPUs: runtime.NumCPU(), Load: load(), Sandboxes: g.Sandboxes, Waiting: g.Waiting, Full: g.Full,
		DiskFull: s.space.Short(0) != "", NoArchive: s.archive == nil, Tasks: s.tasks.Running(), Isolations: isolations, Version: version.Describe().Version,
		ClockAheadMS: time.Now().Round(0).Sub(s.db.Now().Round(0)).Milliseconds(), // Round removes the monotonic readings
	}
	if slices.ContainsFunc(s.backends, func(b sandbox.Backend) bool {
		return b.Name() == s.cfg.Usual.Isolation && b.Capabilities().Remote
	}) {
		out.MemoryBudget = 0
	}
	if s.images != nil {
		for _, image := range s.images.List() {
			if image.Name != "" && len(out.Templates) < maxTemplates {
				out.Templates = append(out.Templates, image.Name)
			}
		}
	}
	return out
}

// load is the number of threads that use or wait for a processor, averaged over a minute; 0 if it is not known.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return v
}

// sharedSecret returns a random secret: of a file in the data directory, or of all nodes that share the database. The first node stores that of its file.
func (s *System) sharedSecret(ctx context.Context, name string) ([]byte, error) {
	secret, err := secretfile.Open(s.dir.Path(name))
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "data directory: %w", err)
	}
	if s.node == "" {
		return secret, nil
	}
	return s.db.ShareValue(ctx, name, secret)
}

// used returns what notes that something was used that works once, at whichever node; see oauth.Config and openid.Config.
func (s *System) used(what string) func(ctx context.Context, id string, ends time.Time) (bool, error) {
	return func(ctx context.Context, id string, ends time.Time) (bool, error) {
		// Keys of requests have no spaces.
		row := store.Once{Key: what + " " + id, Request: []byte(what), CreatedAt: s.db.Now().UTC(), ExpiresAt: ends.UTC()}
		_, first, err := s.db.BeginOnce(ctx, row, math.MaxInt32)
		return first, err
	}
}

const (
	// nodeHead bounds the head of a request of another node: that of a client, with a principal.
	nodeHead = 256 << 10
	// nodeIdle is longer than other nodes keep connections.
	nodeIdle = 2 * time.Minute
)

// nodeServer creates the server of the listener for other nodes, which serves doors.
func (s *System) nodeServer(doors map[forward.Door]http.Handler) service.Server {
	requests := quota.NewRequests(s.cfg.Front.Bounds.WithDefaults().Conns)
	from := func(r *http.Request) (api.NodeID, error) {
		id, ok := peer.NodeOf(r.TLS)
		if !ok {
			return "", api.Errorf(api.KindUnauthenticated, "the connection has no certificate of a node")
		}
		return id, s.fleet.Known(r.Context(), id) // it may have been removed since it connected
	}
	receiver := forward.Receiver{Doors: doors, Now: s.db.Now, From: from}
	// A node that may be taken over refuses at once: reading the rows waits for the database.
	known := s.holding(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := from(r); api.KindOf(err) == api.KindUnavailable { // the rows cannot be read; others are refused below
			httpapi.Fail(w, err)
			return
		}
		receiver.ServeHTTP(w, r)
	}))
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := requests.Serve(r.Context())
		defer end()
		known.ServeHTTP(w, r.WithContext(ctx))
	})
	return service.Server{Listener: tls.NewListener(s.nodes, s.fleet.Identity().Server()), Server: &http.Server{
		Handler: counted, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: nodeIdle, MaxHeaderBytes: nodeHead,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}}
}
