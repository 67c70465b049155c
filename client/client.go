package client

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// Client calls one daemon. Its methods are about the daemon itself; what the daemon holds
// is behind services, as in c.Sandboxes.Create.
type Client struct {
	Sandboxes    *SandboxService
	Snapshots    *SnapshotService
	Templates    *TemplateService
	Tasks        *TaskService
	Runs         *RunService
	Roles        *RoleService
	Keys         *KeyService
	Provisions   *ProvisionService
	Egress       *EgressService
	Repositories *RepositoryService
	Workspaces   *WorkspaceService
	Images       *ImageService
	Secrets      *SecretService
	Lessons      *LessonService
	Documents    *DocumentService
	Sessions     *SessionService
	Plans        *PlanService

	dial func(ctx context.Context) (net.Conn, error)
	http *http.Client
	// host and prefix are of the daemon's address, key is what it is shown.
	host, prefix, key string
}

// Config is how a daemon is reached. [Unix] and [Remote] make the usual ones.
type Config struct {
	// Dial opens a connection to the daemon, encrypted where it is to be.
	Dial func(ctx context.Context) (net.Conn, error)
	// Host is sent as the Host of every request; empty means "hortus".
	Host string
	// Prefix goes before every path.
	Prefix string
	// Key is an API key, which a daemon's own socket does not ask for.
	Key string
}

// maxAnswer bounds a JSON answer, in bytes.
const maxAnswer = 64 << 20

// New makes a client. It connects when it is first used.
func New(cfg Config) *Client {
	if cfg.Host == "" {
		cfg.Host = "hortus"
	}
	c := &Client{dial: cfg.Dial, host: cfg.Host, prefix: cfg.Prefix, key: cfg.Key, http: &http.Client{
		Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return cfg.Dial(ctx) },
			MaxIdleConnsPerHost: 4,
			DisableCompression:  true,
		},
		// A key is for one host: it follows nobody to another.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	s := service{c}
	c.Sandboxes, c.Snapshots, c.Templates = &SandboxService{s}, &SnapshotService{s}, &TemplateService{s}
	c.Tasks, c.Runs, c.Roles = &TaskService{s}, &RunService{s}, &RoleService{s}
	c.Keys, c.Provisions, c.Egress = &KeyService{s}, &ProvisionService{s}, &EgressService{s}
	c.Repositories = &RepositoryService{s}
	c.Workspaces = &WorkspaceService{s}
	c.Images = &ImageService{s}
	c.Secrets, c.Sessions, c.Plans = &SecretService{s}, &SessionService{s}, &PlanService{s}
	c.Lessons = &LessonService{s}
	c.Documents = &DocumentService{s}
	return c
}

// service is what every service of a client has.
type service struct{ client *Client }

// Unix makes a client of a daemon that listens on a unix socket. The path may be
// longer than the kernel allows for a socket's name.
func Unix(path string) *Client {
	return New(Config{Dial: func(ctx context.Context) (net.Conn, error) {
		short, done, err := shortPath(path)
		if err != nil {
			return nil, err
		}
		defer done()
		var d net.Dialer
		return d.DialContext(ctx, "unix", short)
	}})
}

// maxSocketPath is what fits into a socket address, its end mark left out.
const maxSocketPath = 100

// Close ends the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request sends one request and gives its answer, whose status is a success.
func (c *Client) request(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	if in == nil {
		send := func() (*http.Response, error) { return c.send(ctx, method, path, query, nil, "") }
		if p := patienceOf(ctx); p.For > 0 && method == http.MethodGet {
			return p.try(ctx, send)
		}
		return send()
	}
	b, err := api.MarshalRequest(in)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "request to %s: %w", path, err)
	}
	return c.send(ctx, method, path, query, bytes.NewReader(b), "application/json")
}

// send is request with a body of any type. A segment of path that can hold anything must be
// escaped.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body io.Reader, kind string) (*http.Response, error) {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "request to %s: %w", path, err)
	}
	prefix := url.URL{Path: c.prefix}
	u := url.URL{Scheme: "http", Host: c.host, Path: c.prefix + plain, RawPath: prefix.EscapedPath() + path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "request to %s: %w", path, err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if api.WaitToldOf(ctx) != nil {
		req.Header.Set("Accept", "application/json, "+typeLines)
	}
	if key, ok := ctx.Value(idempotencyKey{}).(string); ok {
		req.Header.Set("Idempotency-Key", key)
	}
	if c.key != "" {
		req.Header.Set(keyHeader, c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		failure := api.Errorf(api.KindUnavailable, "the daemon does not respond: %w", err)
		if untrusted := (x509.UnknownAuthorityError{}); errors.As(err, &untrusted) {
			failure = failure.WithHint("if the certificate is your own, set SSL_CERT_FILE to the file with it, or with that of its authority")
		}
		return nil, failure
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, readError(resp)
	}
	return resp, nil
}

// readError reads the error that an answer carries: a problem, or what daemons sent
// before they knew problems.
func readError(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		b = nil // a part is no document
	}
	return decodeError(resp.StatusCode, b)
}

// decodeError decodes the body of an answer that is an error.
func decodeError(status int, body []byte) error {
	var e struct {
		api.Problem
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &e) != nil || e.Kind == "" {
		kind := api.KindInternal
		switch status {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout: // of a proxy that has no daemon now
			kind = api.KindUnavailable
		}
		return api.Errorf(kind, "unexpected response from the daemon: %d %s: %.200q", status, http.StatusText(status), bytes.TrimSpace(body))
	}
	if e.Detail == "" {
		e.Detail = e.Message
	}
	return e.Err()
}

// call sends a request and decodes its answer into out, which may be nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	return c.query(ctx, method, path, nil, in, out)
}

func (c *Client) query(ctx context.Context, method, path string, query url.Values, in, out any) error {
	resp, err := c.request(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if told := api.WaitToldOf(ctx); told != nil && resp.Header.Get("Content-Type") == typeLines {
		return waited(ctx, resp.Body, path, told, out)
	}
	if out == nil {
		_, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
		return err
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return api.Errorf(api.KindUnavailable, "the daemon's answer to %s was interrupted: %w", path, err)
	}
	return nil
}

// typeLines is the media type of an answer with one JSON value per line.
const typeLines = "application/x-ndjson"

// waited reads the answer of a request that waited for capacity. told gets what it waits for.
func waited(ctx context.Context, body io.Reader, path string, told func(api.WaitingEvent), out any) error {
	dec := json.NewDecoder(io.LimitReader(body, maxAnswer))
	for {
		var line api.WaitLine
		err := dec.Decode(&line)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err == nil && line.Waiting != nil:
			told(*line.Waiting)
			continue
		case err == nil && line.Error != nil:
			return line.Error.Err()
		case err == nil && out != nil:
			err = json.Unmarshal(line.Answer, out)
		}
		if err != nil {
			return api.Errorf(api.KindUnavailable, "the daemon's answer to %s was interrupted: %w", path, err)
		}
		return nil
	}
}

// Info returns which daemon answers, and what it holds.
func (c *Client) Info(ctx context.Context) (admin.DaemonInfo, error) {
	var out admin.DaemonInfo
	return out, c.call(ctx, http.MethodGet, "/v1/info", nil, &out)
}

// Ready fails while the daemon is not at full speed: its template is not built, or
// its guests are not warm. The message says which.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/v1/ready", nil, nil)
}

// Doctor returns what the daemon's host can do.
func (c *Client) Doctor(ctx context.Context) (admin.Doctor, error) {
	var out admin.Doctor
	return out, c.call(ctx, http.MethodGet, "/v1/doctor", nil, &out)
}

// Stop asks the daemon to stop. With sandboxes or tasks alive it refuses, unless
// forced to end them.
func (c *Client) Stop(ctx context.Context, force bool) error {
	q := url.Values{}
	if force {
		q.Set("force", "1")
	}
	return c.query(ctx, http.MethodPost, "/v1/stop", q, nil, nil)
}

// StopKeeping is Stop that leaves sandboxes running: the next daemon of the data
// directory takes them over, with the commands in them. Those that cannot be taken
// over are ended. With tasks alive it refuses, unless forced to end them.
func (c *Client) StopKeeping(ctx context.Context, force bool) error {
	q := url.Values{"keep": {"1"}}
	if force {
		q.Set("force", "1")
	}
	return c.query(ctx, http.MethodPost, "/v1/stop", q, nil, nil)
}

// InitFleet creates, once, what the nodes that share the daemon's database trust each other by.
func (c *Client) InitFleet(ctx context.Context) (admin.Fleet, error) {
	var out admin.Fleet
	return out, c.call(ctx, http.MethodPost, "/v1/fleet/init", nil, &out)
}

// FleetNodes lists the nodes that share the daemon's database.
func (c *Client) FleetNodes(ctx context.Context) (admin.Fleet, error) {
	var out admin.Fleet
	return out, c.call(ctx, http.MethodGet, "/v1/fleet/nodes", nil, &out)
}

// DrainNode has a node take nothing new until its daemon starts again.
func (c *Client) DrainNode(ctx context.Context, name string, req admin.DrainNode) (admin.DrainedNode, error) {
	var out admin.DrainedNode
	return out, c.call(ctx, http.MethodPost, "/v1/fleet/nodes/"+url.PathEscape(name)+"/drain", req, &out)
}

// RemoveNode removes a node that drains and has nothing left, or that is gone.
func (c *Client) RemoveNode(ctx context.Context, name string) (admin.FleetNode, error) {
	var out admin.FleetNode
	return out, c.call(ctx, http.MethodDelete, "/v1/fleet/nodes/"+url.PathEscape(name), nil, &out)
}

// sleep waits, or gives the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// segment makes an identifier or prefix safe as one segment of a path. What no
// identifier can hold is refused here rather than sent.
func segment(id string) (string, error) {
	if id == "" || strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	}) {
		return "", api.Errorf(api.KindInvalid, "%.40q is not an ID", id)
	}
	return id, nil
}
