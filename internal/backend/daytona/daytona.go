package daytona

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/remote"
)

// Name is the name of the backend.
const Name = "daytona"

// Config is where the service is.
type Config struct {
	// APIURL is the address of the API; empty means https://app.daytona.io/api.
	APIURL string
	// Domains are the domains of the addresses that the API gives for sandboxes; others are refused, because requests to
	// them have the API key. Empty means daytona.io and daytona.work.
	Domains []string
	// Snapshot is what sandboxes start from; empty means the service's default.
	Snapshot string
	// Key returns the API key.
	Key func(ctx context.Context) (string, error)
}

// Service implements remote.Service.
type Service struct {
	*remote.Client
	cfg Config
	api *url.URL
}

// New returns a service. KindInvalid for an address that cannot be used.
func New(cfg Config) (*Service, error) {
	cfg.APIURL = cmp.Or(cfg.APIURL, "https://app.daytona.io/api")
	if len(cfg.Domains) == 0 {
		cfg.Domains = []string{"daytona.io", "daytona.work"}
	}
	u, err := remote.ParseURL(cfg.APIURL)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "daytona.api-url: %w", err)
	}
	return &Service{cfg: cfg, api: u, Client: remote.NewClient(remote.ClientConfig{Name: Name, Key: cfg.Key})}, nil
}

// Name implements remote.Service.
func (s *Service) Name() string { return Name }

// send sends a request with the API key.
func (s *Service) send(ctx context.Context, c remote.Call) error {
	key, err := s.Key(ctx)
	if err != nil {
		return err
	}
	c.Header = http.Header{"Authorization": {"Bearer " + key}}
	return s.Do(ctx, c)
}

// call sends a request of the API.
func (s *Service) call(ctx context.Context, doing, method, path string, in, out any) error {
	return s.send(ctx, remote.Call{Doing: doing, Method: method, URL: s.api.String() + path, In: in, Out: out})
}

// row is a sandbox. The state says what it is, and the desired state what it will be.
type row struct {
	ID         string            `json:"id"`
	State      string            `json:"state"`
	Desired    string            `json:"desiredState"`
	Reason     string            `json:"errorReason"`
	Labels     map[string]string `json:"labels"`
	ToolboxURL string            `json:"toolboxProxyUrl"`
}

// page is a part of a list.
type page struct {
	Items []row  `json:"items"`
	Next  string `json:"nextCursor"`
}

// toolbox is the field of remote.Box.Access with the address of the toolbox.
const toolbox = "toolbox"

// Check implements remote.Service.
func (s *Service) Check(ctx context.Context) error {
	var p page
	return s.call(ctx, "list sandboxes", http.MethodGet, "/sandbox?limit=1", nil, &p)
}

// Create implements remote.Service.
func (s *Service) Create(ctx context.Context, r remote.Request) (remote.Box, error) {
	in := map[string]any{
		"labels": r.Labels, "public": false, "networkBlockAll": !r.Internet,
		"autoStopInterval": int(r.Lease / time.Minute), "autoDeleteInterval": 0,
	}
	if s.cfg.Snapshot != "" {
		in["snapshot"] = s.cfg.Snapshot
	}
	var created row
	if err := s.call(ctx, "create a sandbox", http.MethodPost, "/sandbox", in, &created); err != nil {
		return remote.Box{}, err
	}
	if err := remote.CheckID(Name, created.ID); err != nil {
		return remote.Box{}, err
	}
	b := remote.Box{ID: created.ID, Access: map[string]string{toolbox: created.ToolboxURL}}
	for wait := 50 * time.Millisecond; created.State != "started"; wait = min(2*wait, 2*time.Second) {
		switch created.State {
		case "error", "build_failed", "destroyed", "destroying", "stopped", "archived":
			return b, api.Errorf(api.KindUnavailable, "daytona: sandbox %s did not start: it is %s: %.300q", b.ID, created.State, created.Reason)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return b, api.Errorf(api.KindTimeout, "daytona: sandbox %s did not start in time: it is %.40q", b.ID, created.State)
		}
		var err error
		if created, err = s.get(ctx, b); err != nil {
			return b, err
		}
	}
	if b.Access[toolbox] == "" {
		var u struct {
			URL string `json:"url"`
		}
		if err := s.call(ctx, "get the address of a sandbox's toolbox", http.MethodGet, "/sandbox/"+b.ID+"/toolbox-proxy-url", nil, &u); err != nil {
			return b, err
		}
		b.Access[toolbox] = u.URL
	}
	return b, nil
}

// get returns a sandbox.
func (s *Service) get(ctx context.Context, b remote.Box) (r row, err error) {
	if err := s.call(ctx, "get a sandbox", http.MethodGet, "/sandbox/"+b.ID, nil, &r); err != nil {
		return r, err
	}
	if r.ID != b.ID {
		return r, api.Errorf(api.KindUnavailable, "daytona: asked for sandbox %s, it answered with %.80q", b.ID, r.ID)
	}
	return r, nil
}

// maxPages is the maximum number of pages of a list.
const maxPages = 100

// List implements remote.Service.
func (s *Service) List(ctx context.Context, owner string) ([]remote.Box, error) {
	labels, err := json.Marshal(map[string]string{remote.LabelOwner: owner})
	if err != nil {
		return nil, err
	}
	q := url.Values{"labels": {string(labels)}, "limit": {"100"}}
	var out []remote.Box
	for range maxPages {
		var p page
		if err := s.call(ctx, "list sandboxes", http.MethodGet, "/sandbox?"+q.Encode(), nil, &p); err != nil {
			return nil, err
		}
		for _, r := range p.Items {
			// A service that ignores the filter must not have us end what is another's.
			if r.Labels[remote.LabelOwner] == owner && remote.CheckID(Name, r.ID) == nil && !gone(r) {
				out = append(out, remote.Box{ID: r.ID, Sandbox: api.SandboxID(r.Labels[remote.LabelSandbox])})
			}
		}
		if p.Next == "" {
			return out, nil
		}
		q.Set("cursor", p.Next)
	}
	return nil, api.Errorf(api.KindUnavailable, "daytona: the list of sandboxes has more than %d pages", maxPages)
}

func gone(r row) bool { return r.State == "destroyed" }

// State implements remote.Service.
func (s *Service) State(ctx context.Context, b remote.Box) (remote.State, error) {
	r, err := s.get(ctx, b)
	switch {
	case api.KindOf(err) == api.KindNotFound, err == nil && gone(r):
		return remote.Gone, nil
	case err != nil:
		return "", err
	case r.State == "started":
		return remote.Running, nil
	}
	return remote.Other, nil
}

// Kill implements remote.Service.
func (s *Service) Kill(ctx context.Context, b remote.Box) error {
	err := s.call(ctx, "end a sandbox", http.MethodDelete, "/sandbox/"+b.ID, nil, nil)
	if api.KindOf(err) == api.KindNotFound {
		return nil
	}
	return err
}

// Extend implements remote.Service.
func (s *Service) Extend(ctx context.Context, b remote.Box, _ time.Duration) error {
	return s.call(ctx, "report activity of a sandbox", http.MethodPost, "/sandbox/"+b.ID+"/last-activity", nil, nil)
}

// Endpoint implements remote.Service.
func (s *Service) Endpoint(ctx context.Context, b remote.Box, port int) (remote.Endpoint, error) {
	var p struct {
		SandboxID string `json:"sandboxId"`
		URL       string `json:"url"`
		Token     string `json:"token"`
	}
	if err := s.call(ctx, "get the address of a port", http.MethodGet, "/sandbox/"+b.ID+"/ports/"+strconv.Itoa(port)+"/preview-url", nil, &p); err != nil {
		return remote.Endpoint{}, err
	}
	u, err := remote.CheckURL(Name, p.URL, s.api.Scheme, s.cfg.Domains)
	if err != nil {
		return remote.Endpoint{}, err
	}
	return remote.Endpoint{URL: u, Header: http.Header{"X-Daytona-Preview-Token": {p.Token}}}, nil
}

// tool sends a request of the toolbox of a sandbox.
func (s *Service) tool(ctx context.Context, b remote.Box, p string, c remote.Call) error {
	u, err := remote.CheckURL(Name, b.Access[toolbox], s.api.Scheme, s.cfg.Domains)
	if err != nil {
		return err
	}
	u.Path = path.Join("/", u.Path, b.ID, p)
	u.RawQuery = c.URL
	c.Method, c.URL = http.MethodPost, u.String()
	return s.send(ctx, c)
}

// Boot implements remote.Service.
func (s *Service) Boot(ctx context.Context, b remote.Box, g remote.Guest) error {
	return remote.Upload(ctx, s, b, g)
}

// Abilities implements remote.Service: there are no more.
func (s *Service) Abilities() []api.Ability { return nil }

// Upload implements remote.Uploader.
func (s *Service) Upload(ctx context.Context, b remote.Box, file string, content []byte) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", path.Base(file))
	if err == nil {
		_, err = part.Write(content)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return err
	}
	return s.tool(ctx, b, "files/upload", remote.Call{
		Doing: "upload " + file, URL: url.Values{"path": {file}}.Encode(), In: io.Reader(&body), Type: form.FormDataContentType(),
	})
}

// Run implements remote.Uploader.
func (s *Service) Run(ctx context.Context, b remote.Box, script string) error {
	var out struct {
		ExitCode *int   `json:"exitCode"`
		Result   string `json:"result"`
	}
	in := map[string]any{"command": "bash -c " + quote(script), "timeout": 60}
	if err := s.tool(ctx, b, "process/execute", remote.Call{Doing: "run a command", In: in, Out: &out}); err != nil {
		return err
	}
	switch {
	case out.ExitCode == nil:
		return api.Errorf(api.KindUnavailable, "daytona: the answer about a command has no exit code")
	case *out.ExitCode != 0:
		return api.Errorf(api.KindUnavailable, "daytona: a command of the start failed with exit code %d: %.500q", *out.ExitCode, out.Result)
	}
	return nil
}

// quote returns a text as one word of a shell.
func quote(s string) string {
	return "'" + string(bytes.ReplaceAll([]byte(s), []byte("'"), []byte(`'\''`))) + "'"
}

var _ remote.Service = (*Service)(nil)
