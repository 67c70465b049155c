package e2b

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/backend/remote"
)

// Name is the name of the backend.
const Name = "e2b"

// Config is where the service is.
type Config struct {
	// APIURL is the address of the API; empty means https://api.e2b.app.
	APIURL string
	// SandboxURL is the address of all sandboxes, which then have headers in place of names; empty means that each port
	// has a name below Domain.
	SandboxURL string
	// Domain is the domain of the sandboxes' names; empty means e2b.app.
	Domain string
	// Template is the template of sandboxes; empty means base.
	Template string
	// Key returns the API key.
	Key func(ctx context.Context) (string, error)
}

// Service implements remote.Service.
type Service struct {
	*remote.Client
	cfg     Config
	api     *url.URL
	sandbox *url.URL // nil if ports have names
}

// New returns a service. KindInvalid for an address that cannot be used.
func New(cfg Config) (*Service, error) {
	cfg.APIURL, cfg.Domain, cfg.Template = cmp.Or(cfg.APIURL, "https://api.e2b.app"), cmp.Or(cfg.Domain, "e2b.app"), cmp.Or(cfg.Template, "base")
	s := &Service{cfg: cfg, Client: remote.NewClient(remote.ClientConfig{Name: Name, Key: cfg.Key})}
	var err error
	if s.api, err = remote.ParseURL(cfg.APIURL); err != nil {
		return nil, api.Errorf(api.KindInvalid, "e2b.api-url: %w", err)
	}
	if cfg.SandboxURL != "" {
		if s.sandbox, err = remote.ParseURL(cfg.SandboxURL); err != nil {
			return nil, api.Errorf(api.KindInvalid, "e2b.sandbox-url: %w", err)
		}
	}
	return s, nil
}

// Name implements remote.Service.
func (s *Service) Name() string { return Name }

// call sends a request of the API.
func (s *Service) call(ctx context.Context, doing, method, path string, in, out any, want ...int) error {
	key, err := s.Key(ctx)
	if err != nil {
		return err
	}
	return s.Do(ctx, remote.Call{
		Doing: doing, Method: method, URL: s.api.String() + path, Header: http.Header{"X-Api-Key": {key}}, In: in, Out: out, Want: want,
	})
}

// Check implements remote.Service.
func (s *Service) Check(ctx context.Context) error {
	var list []row
	return s.call(ctx, "list sandboxes", http.MethodGet, "/v2/sandboxes?limit=1", nil, &list)
}

// answer is a sandbox that was created.
type answer struct {
	SandboxID    string `json:"sandboxID"`
	EnvdToken    string `json:"envdAccessToken"`
	TrafficToken string `json:"trafficAccessToken"`
}

// row is a sandbox in a list.
type row struct {
	SandboxID string            `json:"sandboxID"`
	State     string            `json:"state"`
	Metadata  map[string]string `json:"metadata"`
}

// The fields of remote.Box.Access.
const (
	envdToken    = "envd"
	trafficToken = "traffic"
)

// Create implements remote.Service.
func (s *Service) Create(ctx context.Context, r remote.Request) (remote.Box, error) {
	in := map[string]any{
		"templateID": s.cfg.Template, "metadata": r.Labels, "timeout": int64(r.Lease / time.Second), "autoPause": false,
		"allow_internet_access": r.Internet, "network": map[string]any{"allowPublicTraffic": false},
	}
	var a answer
	if err := s.call(ctx, "create a sandbox", http.MethodPost, "/v2/sandboxes", in, &a, http.StatusCreated); err != nil {
		return remote.Box{}, err
	}
	if err := remote.CheckID(Name, a.SandboxID); err != nil {
		return remote.Box{}, err
	}
	b := remote.Box{ID: a.SandboxID, Access: map[string]string{envdToken: a.EnvdToken, trafficToken: a.TrafficToken}}
	for _, token := range b.Access {
		for _, c := range []byte(token) {
			if c <= ' ' || c > '~' {
				return b, api.Errorf(api.KindUnavailable, "e2b: sandbox %s has a malformed token", b.ID)
			}
		}
	}
	return b, nil
}

// maxPages is the maximum number of pages of a list.
const maxPages = 100

// List implements remote.Service.
func (s *Service) List(ctx context.Context, owner string) ([]remote.Box, error) {
	q := url.Values{"metadata": {url.Values{remote.LabelOwner: {owner}}.Encode()}, "state": {"running,paused"}, "limit": {"100"}}
	key, err := s.Key(ctx)
	if err != nil {
		return nil, err
	}
	var out []remote.Box
	for range maxPages {
		var list []row
		next := ""
		err := s.Do(ctx, remote.Call{
			Doing: "list sandboxes", Method: http.MethodGet, URL: s.api.String() + "/v2/sandboxes?" + q.Encode(), Header: http.Header{"X-Api-Key": {key}},
			Out: &list, Head: func(h http.Header) { next = h.Get("X-Next-Token") },
		})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			// A service that ignores the filter must not have us end what is another's.
			if r.Metadata[remote.LabelOwner] != owner || remote.CheckID(Name, r.SandboxID) != nil {
				continue
			}
			out = append(out, remote.Box{ID: r.SandboxID, Sandbox: api.SandboxID(r.Metadata[remote.LabelSandbox])})
		}
		if next == "" {
			return out, nil
		}
		q.Set("nextToken", next)
	}
	return nil, api.Errorf(api.KindUnavailable, "e2b: the list of sandboxes has more than %d pages", maxPages)
}

// State implements remote.Service.
func (s *Service) State(ctx context.Context, b remote.Box) (remote.State, error) {
	var r row
	err := s.call(ctx, "get a sandbox", http.MethodGet, "/sandboxes/"+b.ID, nil, &r)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		return remote.Gone, nil
	case err != nil:
		return "", err
	case r.SandboxID != b.ID:
		return "", api.Errorf(api.KindUnavailable, "e2b: asked for sandbox %s, it answered with %.80q", b.ID, r.SandboxID)
	case r.State == "running":
		return remote.Running, nil
	}
	return remote.Other, nil
}

// Kill implements remote.Service.
func (s *Service) Kill(ctx context.Context, b remote.Box) error {
	err := s.call(ctx, "end a sandbox", http.MethodDelete, "/sandboxes/"+b.ID, nil, nil)
	if api.KindOf(err) == api.KindNotFound {
		return nil
	}
	return err
}

// Extend implements remote.Service.
func (s *Service) Extend(ctx context.Context, b remote.Box, d time.Duration) error {
	return s.call(ctx, "set the deadline of a sandbox", http.MethodPost, "/sandboxes/"+b.ID+"/timeout", map[string]any{"timeout": int64(d / time.Second)}, nil)
}

// Endpoint implements remote.Service.
func (s *Service) Endpoint(_ context.Context, b remote.Box, port int) (remote.Endpoint, error) {
	e := remote.Endpoint{Header: http.Header{}}
	if t := b.Access[trafficToken]; t != "" {
		e.Header.Set("E2b-Traffic-Access-Token", t)
	}
	if s.sandbox == nil {
		e.URL = &url.URL{Scheme: s.api.Scheme, Host: fmt.Sprintf("%d-%s.%s", port, b.ID, s.cfg.Domain)}
		return e, nil
	}
	u := *s.sandbox
	e.URL = &u
	e.Header.Set("E2b-Sandbox-Id", b.ID)
	e.Header.Set("E2b-Sandbox-Port", strconv.Itoa(port))
	return e, nil
}

// user is the one of E2B's templates.
const user = "user"

// envd sends a request to the server of E2B in a sandbox.
func (s *Service) envd(ctx context.Context, b remote.Box, c remote.Call) error {
	e, err := s.Endpoint(ctx, b, envd.GuestPort)
	if err != nil {
		return err
	}
	c.Method, c.URL, c.Header = http.MethodPost, e.URL.String()+c.URL, e.Header
	c.Header.Set("X-Access-Token", b.Access[envdToken])
	c.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":")))
	c.Header.Set("Connect-Protocol-Version", "1")
	return s.Do(ctx, c)
}

// Boot implements remote.Service.
func (s *Service) Boot(ctx context.Context, b remote.Box, g remote.Guest) error {
	return remote.Upload(ctx, s, b, g)
}

// Abilities implements remote.Service: there are no more.
func (s *Service) Abilities() []api.Ability { return nil }

// Upload implements remote.Uploader.
func (s *Service) Upload(ctx context.Context, b remote.Box, path string, content []byte) error {
	q := url.Values{"path": {path}, "username": {user}}
	return s.envd(ctx, b, remote.Call{
		Doing: "upload " + path, URL: "/files?" + q.Encode(), In: io.Reader(bytes.NewReader(content)), Type: "application/octet-stream",
	})
}

// Run implements remote.Uploader.
func (s *Service) Run(ctx context.Context, b remote.Box, script string) error {
	no := false
	req, err := json.Marshal(&envd.StartRequest{Stdin: &no, Process: &envd.ProcessConfig{Cmd: "/bin/bash", Args: []string{"-l", "-c", script}}})
	if err != nil {
		return err
	}
	body := append([]byte{0, byte(len(req) >> 24), byte(len(req) >> 16), byte(len(req) >> 8), byte(len(req))}, req...)
	var stderr []byte
	var end *envd.EndEvent
	err = s.envd(ctx, b, remote.Call{
		Doing: "run a command", URL: envd.ProcStart, In: io.Reader(bytes.NewReader(body)), Type: "application/connect+json",
		Out: func(r io.Reader) (err error) {
			stderr, end, err = readEvents(r)
			return err
		},
	})
	switch {
	case err != nil:
		return err
	case end.ExitCode != 0:
		return api.Errorf(api.KindUnavailable, "e2b: a command of the start failed with exit code %d: %.500q", end.ExitCode, stderr)
	}
	return nil
}

// readEvents reads the events of a process until its end.
func readEvents(r io.Reader) (stderr []byte, end *envd.EndEvent, err error) {
	frames := envd.FrameReader{R: r, Max: 1 << 20}
	for {
		flags, payload, err := frames.Next()
		if err != nil {
			return nil, nil, err
		}
		if flags&envd.FlagEnd != 0 {
			if e := envd.ParseEnd(payload); e != nil {
				return nil, nil, e
			}
			return nil, nil, errors.New("the stream has no end of the command")
		}
		var resp envd.ProcessResponse
		if err := json.Unmarshal(payload, &resp); err != nil {
			return nil, nil, err
		}
		switch ev := resp.Event; {
		case ev == nil:
		case ev.Data != nil:
			stderr = append(stderr, ev.Data.Stderr[:min(len(ev.Data.Stderr), 500-len(stderr))]...)
		case ev.End != nil:
			return stderr, ev.End, nil
		}
	}
}

var _ remote.Service = (*Service)(nil)
