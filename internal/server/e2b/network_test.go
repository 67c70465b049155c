package e2b_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/egress/policy"
	"hortus.dev/internal/server/e2b"
)

// walled shows the sandboxes of a world as those of a backend that denies connections, and keeps
// what is requested of them.
type walled struct {
	accounts
	template *api.EgressPolicy // the policy of the template

	mu    sync.Mutex
	rows  map[api.SandboxID]*api.EgressPolicy
	fails error
	// unknown is the error about rules for headers
	unknown error
}

func (w *walled) row(s api.Sandbox, p *api.EgressPolicy) api.Sandbox {
	s.Egress, s.EgressPolicy = api.EgressNone, p
	if p != nil && p.Opens() {
		s.Egress = api.EgressRules
	}
	return s
}

func (w *walled) Outline(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	req.Headers = nil // the manager of the test serves no connections
	s, err := w.accounts.Planner.Outline(ctx, req)
	return w.row(s, w.template), err
}

func (w *walled) Create(ctx context.Context, req api.CreateSandbox) (api.Sandbox, error) {
	p := req.Egress
	if w.fails != nil && p != nil {
		return api.Sandbox{}, w.fails
	}
	headers := req.Headers
	req.Egress, req.Headers = nil, nil
	if w.unknown != nil && len(headers) > 0 {
		return api.Sandbox{}, w.unknown
	}
	s, err := w.accounts.Create(ctx, req)
	if p == nil {
		p = w.template
	}
	if len(headers) > 0 {
		with := api.EgressPolicy{}
		if p != nil {
			with = *p
		}
		with.Headers = headers
		p = &with
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[s.ID] = p
	return w.row(s, p), err
}

func (w *walled) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	s, err := w.accounts.Get(ctx, id)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.row(s, w.rows[id]), err
}

func (w *walled) SetEgress(ctx context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error) {
	w.mu.Lock()
	w.rows[id] = &p
	w.mu.Unlock()
	return w.Get(ctx, id)
}

// TestNetwork: what a client asks of the network becomes the policy of its sandbox, and answers
// say what holds.
func TestNetwork(t *testing.T) {
	const v1, v2 = "/sandboxes", "/v2/sandboxes"
	template := &api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "t.example"}}}
	for _, c := range []struct {
		name      string
		open      bool // DefaultInternet
		template  *api.EgressPolicy
		path, add string
		rules     string // of the policy; "-" if there is none
		internet  bool
	}{
		{"nothing", false, nil, v2, ``, "-", false},
		{"nothing, open by default", true, nil, v2, ``, "[allow * allow *]", true},
		{"nothing, from a template with a policy", true, template, v2, ``, "[allow t.example]", false},
		{"opened", false, nil, v2, `,"allow_internet_access":true`, "[allow * allow *]", true},
		{"opened, from a template with a policy", false, template, v2, `,"allow_internet_access":true`, "[allow * allow *]", true},
		{"closed", true, nil, v2, `,"allow_internet_access":false`, "[]", false},
		{"an older SDK, closed by default", false, nil, v1, `,"allow_internet_access":true`, "-", false},
		{"an older SDK, open by default", true, nil, v1, `,"allow_internet_access":true`, "[allow * allow *]", true},
		{"an older SDK that closes it", true, nil, v1, `,"allow_internet_access":false`, "[]", false},
		{"some", false, nil, v2, `,"network":{"allowOut":["a.example"],"denyOut":["0.0.0.0/0"]}`, "[allow a.example deny 0.0.0.0/0]", false},
		{"all but some", true, nil, v2, `,"network":{"denyOut":["10.0.0.0/8"]}`, "[deny 10.0.0.0/8 allow * allow *]", true},
		{"empty lists", false, nil, v2, `,"network":{"allowOut":[],"denyOut":[],"rules":{},"egressProxy":null}`, "-", false},
	} {
		x := &walled{template: c.template, rows: map[api.SandboxID]*api.EgressPolicy{}}
		w := newWorld(t, func(cfg *e2b.Config) {
			x.accounts = cfg.Sandboxes.(accounts)
			cfg.Sandboxes, cfg.Egress, cfg.Policy, cfg.DefaultInternet = x, x, policy.FromE2B, c.open
		})
		r := w.ask(t, "POST", c.path, `{"templateID":"base","timeout":60`+c.add+`}`)
		if r.status != http.StatusCreated {
			t.Errorf("%s: %d %s", c.name, r.status, r.body)
			continue
		}
		id := r.body[strings.Index(r.body, `"i`)+1:][:api.IDLen]
		if got := rulesOf(x.rows[api.SandboxID(id)]); got != c.rules {
			t.Errorf("%s: %s, want %s", c.name, got, c.rules)
		}
		r = w.ask(t, "GET", "/sandboxes/"+id, "")
		if !strings.Contains(r.body, fmt.Sprintf(`"allowInternetAccess":%v`, c.internet)) {
			t.Errorf("%s: %s", c.name, r.body)
		}
	}
}

func rulesOf(p *api.EgressPolicy) string {
	if p == nil {
		return "-"
	}
	var out []string
	for _, r := range p.Rules {
		out = append(out, string(r.Action)+" "+r.Host)
	}
	return "[" + strings.Join(out, " ") + "]"
}

// TestSetNetwork replaces the policy of a sandbox. What is left out is the default again.
func TestSetNetwork(t *testing.T) {
	x := &walled{rows: map[api.SandboxID]*api.EgressPolicy{}}
	w := newWorld(t, func(cfg *e2b.Config) {
		x.accounts = cfg.Sandboxes.(accounts)
		cfg.Sandboxes, cfg.Egress, cfg.Policy = x, x, policy.FromE2B
	})
	id := w.make(t, `{"templateID":"base"}`)
	path := "/sandboxes/" + id + "/network"
	for _, c := range []struct {
		body   string
		status int
		want   string // rules, or what the error names
	}{
		{`{"allow_internet_access":true}`, 204, "[allow * allow *]"},
		{`{"denyOut":["example.com"]}`, 400, "network.denyOut"},
		{`{"egressProxy":{"address":"a:1"}}`, 400, "network.egressProxy"},
		{`{"allowOut":["a.example"],"denyOut":["0.0.0.0/0"]}`, 204, "[allow a.example deny 0.0.0.0/0]"},
		{`{}`, 204, "[]"},
		{``, 204, "[]"},
	} {
		r := w.ask(t, "PUT", path, c.body)
		if r.status != c.status || c.status == 400 && !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s", c.body, r.status, r.body)
		}
		if got := rulesOf(x.rows[api.SandboxID(id)]); c.status == 204 && got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
	w.ask(t, "PUT", path, `{"allowOut":["a.example"],"denyOut":["10.0.0.0/8"]}`)
	if r := w.ask(t, "GET", "/sandboxes/"+id, ""); !strings.Contains(r.body, `"network":{"allowPublicTraffic":true,"allowOut":["a.example"],"denyOut":["10.0.0.0/8"]}`) {
		t.Error(r.body)
	}
	// What the backend cannot open is refused by the option's name.
	x.fails = api.Errorf(api.KindUnsupported, "no outgoing connections here (capability %s)", api.CapEgress)
	for option, add := range map[string]string{"allow_internet_access": `"allow_internet_access":true`, "network.allowOut": `"network":{"allowOut":["a.example"]}`} {
		if r := w.ask(t, "POST", "/v2/sandboxes", `{"templateID":"base",`+add+`}`); r.status != 400 || !strings.Contains(r.body, option) {
			t.Errorf("%s: %d %s", option, r.status, r.body)
		}
	}
}
