package http_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// outside plays policies, decisions and questions: it keeps what it was asked.
type outside struct {
	said   []string
	filter api.EgressFilter
}

func (o *outside) SetEgress(_ context.Context, id api.SandboxID, p api.EgressPolicy) (api.Sandbox, error) {
	o.said = append(o.said, fmt.Sprintf("set %d %v", len(p.Rules), p.Ask))
	return api.Sandbox{ID: id, Egress: api.EgressRules, EgressPolicy: &p}, nil
}

func (o *outside) AddEgressRules(_ context.Context, id api.SandboxID, req api.AddEgressRules) (api.Sandbox, error) {
	o.said = append(o.said, fmt.Sprintf("add %v", req.Rules))
	return api.Sandbox{ID: id, Egress: api.EgressRules}, nil
}

func (o *outside) RevokeSecret(_ context.Context, id api.SandboxID, name string) (api.Sandbox, error) {
	o.said = append(o.said, "revoke "+name)
	return api.Sandbox{ID: id}, nil
}

func (o *outside) EgressPage(_ context.Context, f api.EgressFilter, p api.PageRequest) ([]api.EgressDecision, string, error) {
	o.filter = f
	if p.Cursor == "" {
		return []api.EgressDecision{{Seq: 2, Host: "b.example"}}, "more", nil
	}
	return []api.EgressDecision{{Seq: 1, Host: "a.example"}}, "", nil
}

func (o *outside) EgressAsks(context.Context) ([]api.EgressAsk, error) {
	return []api.EgressAsk{{ID: "q1"}}, nil
}

func (o *outside) AnswerEgressAsk(_ context.Context, id string, a api.AnswerEgressAsk) error {
	if id != "q1" {
		return api.Errorf(api.KindNotFound, "unknown question %.64q", id)
	}
	o.said = append(o.said, fmt.Sprintf("answer %s %s %v", id, a.Action, a.Remember))
	return nil
}

// TestEgressClient calls each route by the SDK.
func TestEgressClient(t *testing.T) {
	o := &outside{}
	f := &fakes{egress: o}
	c, _ := serve(t, f)
	ctx := t.Context()
	sandbox, err := c.Sandboxes.Get(ctx, string(f.id))
	if err != nil {
		t.Fatal(err)
	}
	allow := api.EgressRule{Action: api.EgressAllow, Host: "a.example"}
	if s, err := sandbox.SetEgress(ctx, api.EgressPolicy{Ask: true, Rules: []api.EgressRule{allow}}); err != nil || !s.EgressPolicy.Ask {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := sandbox.AddEgressRules(ctx, allow); err != nil {
		t.Error(err)
	}
	if s, err := sandbox.RevokeSecret(ctx, "crm"); err != nil || s.ID != f.id {
		t.Errorf("%+v, %v", s, err)
	}
	for _, name := range []string{"A b", "../x"} {
		if _, err := sandbox.RevokeSecret(ctx, name); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	want := api.EgressFilter{Sandbox: f.id, Result: api.EgressDenied, Host: "*.example.org", Since: since}
	var seqs []int64
	for d, err := range c.Egress.All(ctx, want) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, d.Seq)
	}
	if fmt.Sprint(seqs) != "[2 1]" || o.filter != want {
		t.Errorf("%v, %+v", seqs, o.filter)
	}
	// A prefix is looked up, a whole id is not: decisions outlive their sandbox.
	gone := api.NewSandboxID()
	for prefix, id := range map[string]api.SandboxID{string(f.id[:8]): f.id, string(gone): gone} {
		if rows, next, err := c.Egress.Page(ctx, api.EgressFilter{Sandbox: api.SandboxID(prefix)}, api.PageRequest{}); err != nil || len(rows) != 1 || next != "more" || o.filter.Sandbox != id {
			t.Errorf("%v %q %v, %+v", rows, next, err, o.filter)
		}
	}
	if asks, err := c.Egress.Asks(ctx); err != nil || len(asks) != 1 {
		t.Errorf("%v, %v", asks, err)
	}
	if err := c.Egress.Answer(ctx, "q1", api.AnswerEgressAsk{Action: api.EgressDeny, Remember: true}); err != nil {
		t.Error(err)
	}
	if err := c.Egress.Answer(ctx, "q2", api.AnswerEgressAsk{Action: api.EgressDeny}); api.KindOf(err) != api.KindNotFound {
		t.Error(err)
	}
	if err := c.Egress.Answer(ctx, "../x", api.AnswerEgressAsk{}); api.KindOf(err) != api.KindInvalid {
		t.Error(err)
	}
	if got := strings.Join(o.said, "; "); got != "set 1 true; add [{allow a.example   [] [] false }]; revoke crm; answer q1 deny true" {
		t.Error(got)
	}
}

// TestEgressBounds: what is out of bounds does not get through the server.
func TestEgressBounds(t *testing.T) {
	o := &outside{}
	f := &fakes{egress: o}
	_, path := serve(t, f)
	hc := unix(path)
	defer hc.CloseIdleConnections()
	rule := func(fields string) string { return `{"rules":[{"action":"allow","host":"a"` + fields + `}]}` }
	many := strings.TrimSuffix(strings.Repeat(`{"action":"allow","host":"a"},`, api.MaxEgressRules+1), ",")
	for _, c := range []struct{ method, path, body, says string }{
		{"PUT", "", ``, "empty"},
		{"PUT", "", `{"allow":1}`, "allow"},
		{"PUT", "", `{"rules":[` + many + `]}`, "rules"},
		{"PUT", "", `{"maxConnections":5000}`, "maxConnections"},
		{"PUT", "", `{"maxBytes":-1}`, "maxBytes"},
		{"PUT", "", `{"presets":["` + strings.Repeat("x", 100) + `"]}`, "preset"},
		{"PUT", "", rule(`,"color":"red"`), "color"},
		{"PUT", "", rule(`,"class":"udp"`), "class"},
		{"PUT", "", rule(`,"ports":"` + strings.Repeat("1,", 1000) + `"`), "ports"},
		{"PUT", "", rule(`,"paths":["` + strings.Repeat("x", 3000) + `"]`), "path"},
		{"PUT", "", rule(`,"methods":["` + strings.Repeat("X", 33) + `"]`), "method"},
		{"PUT", "", `{"rules":[{"action":"maybe","host":"a"}]}`, "action"},
		{"PUT", "", `{"rules":[{"action":"allow"}]}`, "host"},
		{"POST", "/rules", `{"rules":[]}`, "no egress rule"},
		{"POST", "/rules", `{"rules":[` + many + `]}`, "rules"},
		{"POST", "/rules", `{}`, "no egress rule"},
		{"GET", "?result=maybe", ``, "result"},
		{"GET", "?since=yesterday", ``, "since"},
		{"GET", "?host=" + strings.Repeat("x", 400), ``, "host"},
		{"GET", "?limit=0", ``, "limit"},
		{"POST", "/asks/q1", `{"action":"maybe"}`, "action"},
		{"POST", "/asks/q1", `{}`, "action"},
		{"POST", "/asks/q1", `{"action":"allow","for":1}`, "for"},
	} {
		url := "http://daemon/v1/sandboxes/" + string(f.id) + "/egress" + c.path
		if c.method == "GET" || strings.HasPrefix(c.path, "/asks") {
			url = "http://daemon/v1/egress" + c.path
		}
		req, err := http.NewRequestWithContext(t.Context(), c.method, url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(b), c.says) {
			t.Errorf("%s %s %.60s: %s %.300s; want %q", c.method, c.path, c.body, resp.Status, b, c.says)
		}
	}
	if len(o.said) != 0 {
		t.Errorf("got through: %v", o.said)
	}
}
