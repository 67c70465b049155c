package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/seccomp"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/platform/secretfile"
)

// Name is the name of the backend.
const Name = "kubernetes"

// Config is where sandboxes run, and how guests reach this daemon.
type Config struct {
	// Kubeconfig is a file; empty means the service account of the daemon's pod.
	Kubeconfig string
	Namespace  string
	// Image is what sandboxes see as their root file system; GuestImage has the guest as /hortus-guest.
	Image, GuestImage string
	// GuestURL is the address of this daemon for guests: https, a name or an IP address, and a port.
	GuestURL string
	// Listen is the address of the listener for guests.
	Listen string
	// RuntimeClass is the name of a RuntimeClass; empty means that of the cluster.
	RuntimeClass string
	// DaemonLabels, KEY=VALUE, select the daemon's pod in the network policy of sandboxes. Without them the policy names
	// the IP address of GuestURL.
	DaemonLabels []string
	// CPUOvercommit divides the processors that a pod requests from the cluster; its limit stays. 0 means 1.
	CPUOvercommit float64
	// Dir has the secret of the listener's key.
	Dir    string
	Logger *slog.Logger
}

// Service implements remote.Service.
type Service struct {
	*remote.Client
	cfg    Config
	server server
	guests *guests
	host   string // of GuestURL
	port   int
	// filters are what guests add to the runtime's filter of system calls, by architecture.
	filters map[string][]byte

	mu     sync.Mutex
	policy string // the owner and the address of the policy that was applied
}

// New returns a service, which listens. KindInvalid for a configuration that cannot be used. Without a Namespace there is
// no cluster: nothing listens, and every request fails.
func New(cfg Config) (*Service, error) {
	cfg.CPUOvercommit = cmp.Or(cfg.CPUOvercommit, 1)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Service{cfg: cfg, Client: remote.NewClient(remote.ClientConfig{Name: Name})}
	if cfg.Namespace == "" {
		return s, nil
	}
	if err := remote.CheckID(Name, cfg.Namespace); err != nil {
		return nil, api.Errorf(api.KindInvalid, "kubernetes.namespace: %.80q is no name of a namespace", cfg.Namespace)
	}
	for setting, image := range map[string]string{"image": cfg.Image, "guest-image": cfg.GuestImage} {
		if image == "" {
			return nil, api.Errorf(api.KindInvalid, "kubernetes.%s is not set", setting)
		}
	}
	for _, l := range cfg.DaemonLabels {
		if k, _, ok := strings.Cut(l, "="); !ok || k == "" {
			return nil, api.Errorf(api.KindInvalid, "kubernetes.daemon-labels: %.80q is not KEY=VALUE", l)
		}
	}
	at, err := remote.ParseURL(cfg.GuestURL)
	if err != nil || at.Scheme != "https" || at.Path != "" {
		return nil, api.Errorf(api.KindInvalid, "kubernetes.guest-url: %.200q is not an address such as https://10.0.0.7:7443", cfg.GuestURL)
	}
	s.host = at.Hostname()
	if s.port, err = strconv.Atoi(cmp.Or(at.Port(), "443")); err != nil {
		return nil, api.Errorf(api.KindInvalid, "kubernetes.guest-url: %w", err)
	}
	if s.server, err = find(cfg.Kubeconfig); err != nil {
		return nil, err
	}
	if s.filters, err = seccomp.Programs(seccomp.Options{GuestUID: -1, GuestGID: -1}); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "%w", err)
	}
	seed, err := secretfile.Open(filepath.Join(cfg.Dir, "listener"))
	if err != nil {
		return nil, err
	}
	s.Client = remote.NewClient(remote.ClientConfig{Name: Name, Key: s.server.token, TLS: s.server.tls, Refused: s.refused})
	if s.guests, err = listen(cfg.Listen, seed, cfg.Logger); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends the listener and the connections.
func (s *Service) Close() error {
	s.Client.Close()
	if s.guests == nil {
		return nil
	}
	return s.guests.close()
}

// Name implements remote.Service.
func (s *Service) Name() string { return Name }

// Transport implements remote.Service.
func (s *Service) Transport() http.RoundTripper { return s.guests }

// Abilities implements remote.Service.
func (s *Service) Abilities() []api.Ability {
	kernel := "the kernel of the node is shared; kubernetes.runtime-class can give each pod another one"
	processes := api.Ability{Capability: api.CapLimitProcs, OK: true, Reason: "by RLIMIT_NPROC, for the uid of the sandbox"}
	memory := api.Ability{Capability: api.CapLimitMemory, OK: true, Reason: "requested from the cluster and limited by it, which each guest tests at its start; the guest ends commands before. Nodes with cgroup v1 count no memory of sockets"}
	if s.cfg.RuntimeClass != "" {
		memory.Reason += ". If a command is faster, the sandbox ends"
		kernel = "by the RuntimeClass " + s.cfg.RuntimeClass
		processes.OK, processes.Reason = false, "not every kernel of a RuntimeClass has RLIMIT_NPROC"
	}
	return []api.Ability{
		{Capability: api.CapStart, OK: true, Reason: "one pod of the cluster for each sandbox"},
		{Capability: api.CapIsolated, OK: true, Reason: "enforced by the cluster: " + kernel},
		{Capability: api.CapNoNetwork, OK: true, Reason: "by a NetworkPolicy; each guest tests at its start whether it is enforced"},
		{Capability: api.CapUserIdentity, OK: true, Reason: "commands run with a uid that no other sandbox has"},
		{Capability: api.CapRootIdentity, Reason: "pods have the restricted profile of Pod Security", Fix: "use --isolation container or gvisor"},
		{Capability: api.CapLimitCPU, OK: true, Reason: "limited by the cluster; each guest tests at its start whether it is"},
		processes,
		{Capability: api.CapLimitDisk, Reason: "the cluster evicts a pod with more than the default limit, some time after it has written it: the sandbox ends", Fix: "use --isolation container or gvisor"},
		memory,
		{Capability: api.CapPrivateFiles, Reason: "the root file system is that of kubernetes.image, not of a template or an image of this host", Fix: "use --isolation container or gvisor"},
		{Capability: api.CapCheckpoint, Reason: "the API of the cluster saves no pods", Fix: "use --isolation gvisor"},
	}
}

// call sends a request about objects of the namespace.
func (s *Service) call(ctx context.Context, doing, method, group, path string, in, out any, want ...int) error {
	if s.server.url == nil {
		return api.Errorf(api.KindUnisolated, "kubernetes: %s: no cluster is configured", doing).WithHint("set kubernetes.namespace")
	}
	return s.send(ctx, remote.Call{Doing: doing, Method: method, URL: s.server.url.String() + group + "/namespaces/" + s.cfg.Namespace + path, In: in, Out: out, Want: want})
}

// send adds the token to a request.
func (s *Service) send(ctx context.Context, c remote.Call) error {
	token, err := s.Key(ctx)
	if err != nil {
		return err
	}
	c.Header = http.Header{"Accept": {"application/json"}}
	if token != "" {
		c.Header.Set("Authorization", "Bearer "+token)
	}
	return s.Do(ctx, c)
}

// The groups of the API.
const (
	core       = "/api/v1"
	networking = "/apis/networking.k8s.io/v1"
)

// addresses returns those of GuestURL.
func (s *Service) addresses(ctx context.Context) ([]netip.Addr, error) {
	ips, err := (&net.Resolver{}).LookupNetIP(ctx, "ip", s.host)
	if err == nil && len(ips) > 0 {
		return ips, nil
	}
	hint := "guests could not reach this daemon: set kubernetes.guest-url to a name that is found here, or to an IP address"
	if s.cfg.Kubeconfig == "" {
		hint = "guests could not reach this node: its pod has no Service of that name, or the resolver of the cluster does not answer. Helm makes a Service for each node: change their number with helm upgrade and replicas, not with kubectl scale"
	}
	return nil, api.Errorf(api.KindUnavailable, "kubernetes.guest-url: find the address of %s: %w", s.host, err).WithHint("%s", hint)
}

const (
	// nameTime is how long a daemon in the cluster waits at its start for the name in GuestURL.
	nameTime  = 20 * time.Second
	nameAgain = time.Second
)

// Await waits until a daemon in the cluster finds the address of GuestURL, and fails if that takes too long. One elsewhere
// starts without, since it may have other sandboxes than pods.
func (s *Service) Await(ctx context.Context) error {
	if s.cfg.Namespace == "" || s.cfg.Kubeconfig != "" {
		return nil
	}
	end := time.Now().Add(nameTime)
	for said := false; ; said = true {
		_, err := s.addresses(ctx)
		if err == nil || time.Now().After(end) {
			return err
		}
		if !said {
			s.cfg.Logger.Warn("waiting for the name in kubernetes.guest-url", "atMost", nameTime, "error", err)
		}
		select {
		case <-time.After(nameAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Check implements remote.Service.
func (s *Service) Check(ctx context.Context) error {
	if s.cfg.Namespace != "" {
		if _, err := s.addresses(ctx); err != nil {
			return err
		}
	}
	return s.call(ctx, "list pods", http.MethodGet, core, "/pods?limit=1", nil, nil)
}

// The fields of remote.Box.Access.
const (
	accessUID   = "uid"
	accessToken = "token"   // of the guest's connections
	accessDials = "address" // that the guest connects to for its whole life: a pod has no resolver
)

// Create implements remote.Service. The guest waits for Boot.
func (s *Service) Create(ctx context.Context, r remote.Request) (remote.Box, error) {
	id := api.SandboxID(r.Labels[remote.LabelSandbox])
	ips, err := s.addresses(ctx)
	if err != nil {
		return remote.Box{}, err
	}
	ip := ips[0].Unmap().String()
	d := birth.Dial{
		Address: net.JoinHostPort(ip, strconv.Itoa(s.port)), Pin: s.guests.pin, Name: name(id), Ticket: rand.Text(),
		Patience: int(r.Lease / time.Second),
	}
	if !r.Internet {
		if err := s.deny(ctx, r.Labels[remote.LabelOwner], ip); err != nil {
			return remote.Box{}, err
		}
		d.Denied = s.denied(ctx)
	}
	in, err := s.podOf(id, r, d)
	if err != nil {
		return remote.Box{}, api.Errorf(api.KindInternal, "%w", err)
	}
	b := remote.Box{ID: name(id), Access: map[string]string{accessToken: rand.Text(), accessDials: d.Address}}
	s.guests.expect(b.ID, b.Access[accessToken], d.Ticket)
	var p pod
	err = s.call(ctx, "create a pod", http.MethodPost, core, "/pods", in, &p, http.StatusCreated, http.StatusAccepted)
	if err == nil && (p.Metadata.Name != b.ID || p.Metadata.UID == "") {
		err = api.Errorf(api.KindUnavailable, "kubernetes: the created pod has the name %.80q", p.Metadata.Name)
	}
	if err == nil {
		b.Access[accessUID] = p.Metadata.UID
		s.guests.bound(b.ID, p.limits(r.Limits))
	}
	return b, err // without an answer the pod may exist nevertheless
}

// denied are the addresses that the network policy has to make unreachable: the API server's.
func (s *Service) denied(ctx context.Context) (out []string) {
	host, port, _ := net.SplitHostPort(s.server.address())
	// A name that cannot be found is one less to test.
	ips, _ := (&net.Resolver{}).LookupNetIP(ctx, "ip", host)
	for _, ip := range ips[:min(len(ips), 4)] {
		out = append(out, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return out
}

// deny applies the network policy, unless this process has.
func (s *Service) deny(ctx context.Context, owner, ip string) error {
	s.mu.Lock()
	done := s.policy == owner+ip
	s.mu.Unlock()
	if done {
		return nil
	}
	port := s.port
	if len(s.cfg.DaemonLabels) > 0 { // a policy sees the port of the pod, behind a Service
		_, text, err := net.SplitHostPort(s.guests.listener.Addr().String())
		if err == nil {
			port, err = strconv.Atoi(text)
		}
		if err != nil {
			return api.Errorf(api.KindInternal, "%w", err)
		}
	}
	text, err := json.Marshal(s.policyOf(owner, ip, port))
	if err != nil {
		return api.Errorf(api.KindInternal, "%w", err)
	}
	err = s.send(ctx, remote.Call{
		Doing: "apply the network policy", Method: http.MethodPatch, Type: "application/apply-patch+yaml", In: io.Reader(strings.NewReader(string(text))),
		URL: s.server.url.String() + networking + "/namespaces/" + s.cfg.Namespace + "/networkpolicies/" + policyName(owner) + "?fieldManager=hortus&force=true",
	})
	if err == nil {
		s.mu.Lock()
		s.policy = owner + ip
		s.mu.Unlock()
	}
	return err
}

// ownNamespace is that of the daemon's pod, or of the sandboxes.
func (s *Service) ownNamespace() string {
	if b, err := os.ReadFile(filepath.Join(inCluster, "namespace")); err == nil && s.cfg.Kubeconfig == "" {
		return strings.TrimSpace(string(b))
	}
	return s.cfg.Namespace
}

// Boot implements remote.Service. It waits until the guest has connected, or the pod cannot start.
func (s *Service) Boot(ctx context.Context, b remote.Box, g remote.Guest) error {
	var start birth.Remote
	if err := json.Unmarshal(g.Config, &start); err != nil {
		return api.Errorf(api.KindInternal, "the configuration of a guest: %w", err)
	}
	start.Filters = s.filters
	config, err := json.Marshal(start)
	if err != nil {
		return api.Errorf(api.KindInternal, "the configuration of a guest: %w", err)
	}
	began, deadline := time.Now(), ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	var last trouble
	var pull string       // why an image was not pulled: later the kubelet may say only that it waits
	var running time.Time // since when
	var told api.WaitCause
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		err := s.watch(ctx, b, func(p *pod) error {
			if last = s.trouble(p); last.final {
				if !strings.Contains(last.why, pull) {
					last.why += "; before, " + pull
				}
				return api.Errorf(api.KindUnavailable, "pod %s of the cluster does not start: %s", b.ID, last.why).WithHint("%s", last.hint)
			}
			if strings.Contains(last.why, "(ErrImagePull)") {
				pull = last.why
			}
			if running.IsZero() && p.state() == remote.Running {
				running = time.Now()
			}
			if tell := api.WaitToldOf(ctx); tell != nil && last.lacks != "" && last.lacks != told {
				told = last.lacks
				tell(api.WaitingEvent{Cause: told, Why: "pod " + b.ID + ": " + last.why, Position: 1, Of: 1, WaitedMS: time.Since(began).Milliseconds()})
			}
			return nil
		})
		if ctx.Err() == nil {
			failed <- err
			cancel()
		}
	})
	err = s.guests.configure(ctx, b.ID, config)
	cancel()
	watching.Wait()
	select {
	case ferr := <-failed:
		if err != nil && errors.Is(err, context.Canceled) {
			return ferr
		}
	default:
	}
	if err == nil || !errors.Is(deadline.Err(), context.DeadlineExceeded) || api.KindOf(err) == api.KindUnisolated {
		return err
	}
	if !running.IsZero() {
		return api.Errorf(api.KindTimeout, "pod %s of the cluster runs, but its guest has not reached %s in %v", b.ID, s.cfg.GuestURL, time.Since(running).Round(time.Second)).
			WithHint("check kubernetes.guest-url, and whether a NetworkPolicy or a firewall keeps pods of namespace %s from it: docs/kubernetes.md", s.cfg.Namespace)
	}
	return api.Errorf(api.KindTimeout, "pod %s of the cluster has not started in %v: %s", b.ID, time.Since(began).Round(time.Second), cmp.Or(last.why, "the cluster does not say why")).WithHint("%s", last.hint)
}

// watch calls fn with each state of a pod until it returns an error, or ctx ends.
func (s *Service) watch(ctx context.Context, b remote.Box, fn func(*pod) error) error {
	q := url.Values{"watch": {"true"}, "fieldSelector": {"metadata.name=" + b.ID}, "timeoutSeconds": {"90"}}
	for {
		var result error
		err := s.call(ctx, "watch a pod", http.MethodGet, core, "/pods?"+q.Encode(), nil, func(r io.Reader) error {
			d := json.NewDecoder(r)
			for {
				var event struct {
					Type   string `json:"type"`
					Object pod    `json:"object"`
				}
				if err := d.Decode(&event); err == io.EOF || result != nil {
					return nil
				} else if err != nil {
					return err
				}
				switch event.Type {
				case "ADDED", "MODIFIED":
					result = fn(&event.Object)
				case "DELETED":
					result = api.Errorf(api.KindUnavailable, "pod %s was deleted", b.ID)
				}
				if result != nil {
					return nil
				}
			}
		})
		if result != nil {
			return result
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.cfg.Logger.Debug("a watch of a pod has ended", "pod", b.ID, "error", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// maxPages is the maximum number of pages of a list.
const maxPages = 100

// List implements remote.Service.
func (s *Service) List(ctx context.Context, owner string) ([]remote.Box, error) {
	q := url.Values{"labelSelector": {remote.LabelOwner + "=" + owner}, "limit": {"500"}}
	var out []remote.Box
	for range maxPages {
		var list struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []pod `json:"items"`
		}
		if err := s.call(ctx, "list pods", http.MethodGet, core, "/pods?"+q.Encode(), nil, &list); err != nil {
			return nil, err
		}
		for _, p := range list.Items {
			id := api.SandboxID(p.Metadata.Labels[remote.LabelSandbox])
			if p.Metadata.Labels[remote.LabelOwner] != owner || !id.Valid() || p.Metadata.Name != name(id) {
				continue
			}
			out = append(out, remote.Box{ID: p.Metadata.Name, Sandbox: id, Access: map[string]string{accessUID: p.Metadata.UID}})
		}
		if list.Metadata.Continue == "" {
			return out, nil
		}
		q.Set("continue", list.Metadata.Continue)
	}
	return nil, api.Errorf(api.KindUnavailable, "kubernetes: the list of pods has more than %d pages", maxPages)
}

// State implements remote.Service.
func (s *Service) State(ctx context.Context, b remote.Box) (remote.State, error) {
	var p pod
	err := s.call(ctx, "get a pod", http.MethodGet, core, "/pods/"+b.ID, nil, &p)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		return remote.Gone, nil
	case err != nil:
		return "", err
	case p.Metadata.Name != b.ID:
		return "", api.Errorf(api.KindUnavailable, "kubernetes: asked for pod %s, it answered with %.80q", b.ID, p.Metadata.Name)
	case b.Access[accessUID] != "" && p.Metadata.UID != b.Access[accessUID]:
		return remote.Gone, nil // another pod has the name
	}
	return p.state(), nil
}

// Explain implements remote.Explainer: the cluster says why it has evicted a pod or ended its container.
func (s *Service) Explain(ctx context.Context, b remote.Box) string {
	var p pod
	err := s.call(ctx, "get a pod", http.MethodGet, core, "/pods/"+b.ID, nil, &p)
	switch {
	case api.KindOf(err) == api.KindNotFound, err == nil && b.Access[accessUID] != "" && p.Metadata.UID != b.Access[accessUID]:
		return "its pod was deleted"
	case err != nil:
		return ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "DisruptionTarget" && c.Status == "True" && p.Status.Reason == "" { // by another than the kubelet
			return strings.TrimSuffix("its pod was evicted: "+remote.Plain(c.Message), ": ")
		}
	}
	t := s.trouble(&p)
	switch {
	case strings.HasPrefix(t.why, api.CauseMemory):
		return api.CauseMemory
	case p.Metadata.Deletion != "" && p.Status.Reason == "":
		return "its pod was deleted"
	}
	return t.why
}

// Endpoint implements remote.Service. From here on the guest may connect.
func (s *Service) Endpoint(ctx context.Context, b remote.Box, _ int) (remote.Endpoint, error) {
	s.guests.expect(b.ID, b.Access[accessToken], "")
	s.guests.dials(b.ID, s.elsewhere(ctx, b.Access[accessDials]))
	return remote.Endpoint{URL: &url.URL{Scheme: "http", Host: b.ID}}, nil
}

// elsewhere says that a guest connects to an address that is not this daemon's any more; "" if it is, or that is not known.
func (s *Service) elsewhere(ctx context.Context, address string) string {
	ips, err := s.addresses(ctx)
	if address == "" || err != nil {
		return ""
	}
	var now []string
	for _, ip := range ips {
		now = append(now, net.JoinHostPort(ip.Unmap().String(), strconv.Itoa(s.port)))
	}
	if slices.Contains(now, address) {
		return ""
	}
	return "it connects to " + address + ", and the address of kubernetes.guest-url is " + strings.Join(now, ", ") + " now"
}

// Extend implements remote.Service. The guest itself counts from its last connection.
func (s *Service) Extend(context.Context, remote.Box, time.Duration) error { return nil }

// Kill implements remote.Service.
func (s *Service) Kill(ctx context.Context, b remote.Box) error {
	if s.guests != nil {
		s.guests.forget(b.ID)
	}
	// A grace period of 0 would remove the pod from the API while its processes still run.
	in := object{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 1}
	if uid := b.Access[accessUID]; uid != "" {
		in["preconditions"] = object{"uid": uid}
	}
	err := s.call(ctx, "delete a pod", http.MethodDelete, core, "/pods/"+b.ID, in, nil, http.StatusOK, http.StatusAccepted, http.StatusConflict)
	if api.KindOf(err) == api.KindNotFound {
		return nil
	}
	return err
}

// SharesDisks implements remote.Sharer: the files of a pod are on the disk of its node.
func (s *Service) SharesDisks() {}

var _ remote.Service = (*Service)(nil)
