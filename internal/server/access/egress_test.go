package access

import (
	"context"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
)

// gate plays the policies of a manager, and questions about its sandboxes.
type gate struct {
	changed  map[api.SandboxID]int
	accounts []string
	asks     []api.EgressAsk
	answered []string
}

func (g *gate) SetEgress(_ context.Context, id api.SandboxID, _ api.EgressPolicy) (api.Sandbox, error) {
	g.changed[id]++
	return api.Sandbox{ID: id}, nil
}

func (g *gate) AddEgressRules(ctx context.Context, id api.SandboxID, _ []api.EgressRule) (api.Sandbox, error) {
	return g.SetEgress(ctx, id, api.EgressPolicy{})
}

func (g *gate) RevokeSecret(ctx context.Context, id api.SandboxID, _ string) (api.Sandbox, error) {
	return g.SetEgress(ctx, id, api.EgressPolicy{})
}

func (g *gate) EgressPage(_ context.Context, account string, _ api.EgressFilter, _ api.PageRequest) ([]api.EgressDecision, string, error) {
	g.accounts = append(g.accounts, account)
	return nil, "", nil
}

func (g *gate) List(account string) (out []api.EgressAsk) {
	for _, a := range g.asks {
		if account == "" || a.Decision.Account == account {
			out = append(out, a)
		}
	}
	return out
}

func (g *gate) Answer(_ context.Context, account, id string, _ api.EgressAction, _ bool) error {
	for _, a := range g.List(account) {
		if a.ID == id {
			g.answered = append(g.answered, account+"/"+id)
			return nil
		}
	}
	return notFound("question", id)
}

// TestEgressOfOthers: for a user, another account's sandbox, decisions and questions do not
// exist, and a key with a ceiling opens only what was created with it.
func TestEgressOfOthers(t *testing.T) {
	m := &table{rows: map[api.SandboxID]api.Sandbox{}}
	s := guard(m, quota.NewRates(quota.RatesConfig{}))
	narrow, wide := api.NewKeyID(), api.NewKeyID()
	top := &api.EgressPolicy{Rules: []api.EgressRule{{Action: api.EgressAllow, Host: "a.example"}}}
	of := func(account string, key api.KeyID, c api.Ceilings) context.Context {
		return api.WithPrincipal(t.Context(), api.Principal{Account: account, Key: key, Role: api.RoleUser, Ceilings: c})
	}
	limited, unlimited, stranger := of("a", narrow, api.Ceilings{Egress: top}), of("a", wide, api.Ceilings{}), of("b", api.NewKeyID(), api.Ceilings{})
	operator := api.WithPrincipal(t.Context(), api.Operator())
	sandbox := func(ctx context.Context) api.SandboxID {
		row, err := s.Create(ctx, api.CreateSandbox{})
		if err != nil {
			t.Fatal(err)
		}
		return row.ID
	}
	small, open := sandbox(limited), sandbox(unlimited)
	if m.rows[small].MaxEgress != top || m.rows[open].MaxEgress != nil {
		t.Errorf("ceilings %v and %v", m.rows[small].MaxEgress, m.rows[open].MaxEgress)
	}
	g := &gate{changed: map[api.SandboxID]int{}, asks: []api.EgressAsk{
		{ID: "small", Decision: api.EgressDecision{Account: "a", Sandbox: small}}, {ID: "open", Decision: api.EgressDecision{Account: "a", Sandbox: open}},
	}}
	e := NewEgress(EgressConfig{Sandboxes: s, Policies: g, Decisions: g, Asks: g})
	for _, c := range []struct {
		name string
		ctx  context.Context
		id   api.SandboxID
		ask  string
		want api.Kind
	}{
		{"with a ceiling, its own", limited, small, "small", ""},
		{"with a ceiling, of another key", limited, open, "open", api.KindDenied},
		{"without a ceiling, of another key", unlimited, small, "small", ""},
		{"another account's", stranger, open, "open", api.KindNotFound},
		{"what is not there", unlimited, api.NewSandboxID(), "nosuch", api.KindNotFound},
		{"with a ceiling, what is not there", limited, api.NewSandboxID(), "nosuch", api.KindNotFound},
		{"the operator", operator, open, "open", ""},
	} {
		before := g.changed[c.id]
		_, serr := e.SetEgress(c.ctx, c.id, api.EgressPolicy{})
		_, aerr := e.AddEgressRules(c.ctx, c.id, api.AddEgressRules{})
		qerr := e.AnswerEgressAsk(c.ctx, c.ask, api.AnswerEgressAsk{Action: api.EgressAllow})
		for what, err := range map[string]error{"set": serr, "add": aerr, "answer": qerr} {
			if api.KindOf(err) != c.want {
				t.Errorf("%s: %s: %v, want %q", c.name, what, err, c.want)
			}
		}
		if c.want == api.KindNotFound {
			if _, err := e.RevokeSecret(c.ctx, c.id, "crm"); api.KindOf(err) != c.want {
				t.Errorf("%s: take a secret: %v, want %q", c.name, err, c.want)
			}
		}
		if changed := g.changed[c.id] - before; changed != 0 && c.want != "" {
			t.Errorf("%s: changed", c.name)
		}
	}
	// A key with a ceiling may close what it may not open.
	for _, id := range []api.SandboxID{small, open} {
		if _, err := e.RevokeSecret(limited, id, "crm"); err != nil {
			t.Errorf("take a secret from %s: %v", id, err)
		}
	}
	if asks, err := e.EgressAsks(stranger); err != nil || len(asks) != 0 {
		t.Errorf("%v, %v", asks, err)
	}
	for _, ctx := range []context.Context{stranger, operator} {
		if _, _, err := e.EgressPage(ctx, api.EgressFilter{}, api.PageRequest{}); err != nil {
			t.Error(err)
		}
	}
	if g.accounts[0] != "b" || g.accounts[1] != "" {
		t.Errorf("%q", g.accounts)
	}
}
