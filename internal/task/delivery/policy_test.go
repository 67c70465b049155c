package delivery

import (
	"context"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/repository/forge/policy"
	"hortus.dev/internal/task/repo"
	"hortus.dev/test/forgeserver"
)

// withPolicy has the account ada connect the repository with a branch policy.
func withPolicy(t *testing.T, set config.Policy, own api.RepositoryPolicy) *connectedWorld {
	t.Helper()
	w := connect(t, forgeserver.GitHub)
	w.tokens["ada"], w.tokens["bob"] = "t", "t"
	w.set(t, "ada", "t", "token-writes")
	w.set(t, "bob", "t", "token-writes")
	w.policy = operators(set)
	w.policyOf = func(_ context.Context, account, remote string) (api.Repository, error) {
		if remote != w.url || account != "ada" {
			return api.Repository{}, nil
		}
		return api.Repository{Account: account, Policy: &own}, nil
	}
	return w
}

func refusals(v repo.Verdict) string {
	var all []string
	for _, r := range v.Refused {
		all = append(all, r.Rule)
	}
	return strings.Join(all, " ")
}

// TestRepositoryPolicyHolds: the policy of the task's account holds, also if the work is delivered to another address. That of another account does not.
// What it chose holds only as long as the operator allows it.
func TestRepositoryPolicyHolds(t *testing.T) {
	yes := true
	own := api.RepositoryPolicy{Prefix: "hortus/shop-", Target: "main", Draft: &yes, Exists: api.BranchRenamed, Forbidden: []string{"secret"}}
	secret := []policy.File{{Path: "secret", Status: "changed", Mode: 0o100644}}
	for name, c := range map[string]struct {
		account string
		set     config.Policy
		change  func(w *connectedWorld, p *repo.Proposal)
		want    string
	}{
		"within":            {"ada", config.Policy{}, func(_ *connectedWorld, p *repo.Proposal) { p.Files = nil }, ""},
		"a forbidden path":  {"ada", config.Policy{}, nil, "forbidden"},
		"another remote":    {"ada", config.Policy{}, func(w *connectedWorld, p *repo.Proposal) { p.Remote, p.MergeRequest = "/elsewhere", false }, "forbidden"},
		"no draft":          {"ada", config.Policy{}, func(_ *connectedWorld, p *repo.Proposal) { p.Files, p.Draft = nil, false }, "draft"},
		"another account":   {"bob", config.Policy{}, nil, ""},
		"a narrower prefix": {"ada", config.Policy{Branch: "hortus/t*"}, func(_ *connectedWorld, p *repo.Proposal) { p.Files = nil }, "branch"},
		"other targets":     {"ada", config.Policy{Targets: []string{"next"}}, func(_ *connectedWorld, p *repo.Proposal) { p.Files = nil }, "target"},
	} {
		w := withPolicy(t, c.set, own)
		ctx := api.WithPrincipal(t.Context(), api.Principal{Account: c.account})
		p := repo.Proposal{Task: api.Task{Account: c.account}, Remote: w.url, Source: w.url, MergeRequest: true, Files: secret}
		terms, err := w.Terms(ctx, p)
		if mine := c.account == "ada"; err != nil || (terms.Prefix == "hortus/shop-") != mine || terms.Draft != mine || terms.Rename != mine || terms.Target != map[bool]string{true: "main"}[mine] {
			t.Errorf("%s: %+v, %v", name, terms, err)
		}
		p.Branch, p.Target, p.Draft = terms.Prefix+"t1", terms.Target, terms.Draft
		if c.change != nil {
			c.change(w, &p)
		}
		if v, err := w.Check(ctx, p); err != nil || refusals(v) != c.want {
			t.Errorf("%s: %+v, %v; want %q", name, v, err, c.want)
		}
	}
}

// TestExplain: each value has its origin, and a dry run asks the forge for the branches that it protects.
func TestExplain(t *testing.T) {
	w := withPolicy(t, config.Policy{Branch: "bots/**", MaxFiles: 20, Draft: true}, api.RepositoryPolicy{})
	ctx := api.WithPrincipal(t.Context(), api.Principal{Account: "ada"})
	row := api.Repository{Name: "shop", Account: "ada", URL: w.url, Policy: &api.RepositoryPolicy{Prefix: "bots/shop/", MaxLines: 50, Forbidden: []string{"secret"}}}
	branches := []string{"main", "fix/a", "fix/b", "bots/team/a", "bots/team/b", "bots/team/c"}
	got, err := w.Explain(ctx, row, branches, "main", true)
	if err != nil || len(got.Refused) > 0 || got.NotChecked != "" || got.Repository != "shop" {
		t.Fatalf("%+v, %v", got, err)
	}
	want := map[string]string{
		api.PolicyPrefix: "bots/shop/ repository", api.PolicyTarget: "the branch that the work started from built-in", api.PolicyDraft: "yes operator", api.PolicyExists: "fail built-in",
		api.PolicyMaxFiles: "20 operator", api.PolicyMaxLines: "50 repository", api.PolicyProtected: "main, master, trunk, develop, release, release/**, production, stable built-in",
	}
	for _, f := range got.Fields {
		if w, ok := want[f.Name]; ok && f.Value+" "+f.From != w || f.Why == "" {
			t.Errorf("%+v, want %s", f, w)
		}
	}
	if f := got.Fields[len(got.Fields)-1]; !strings.HasPrefix(f.Value, "secret, .github/workflows/**") || f.From != api.FromRepository {
		t.Errorf("%+v", f)
	}
	if d := got.Deliveries[0]; len(got.Deliveries) != 3 || d.Of != "task" || !strings.HasPrefix(d.Branch, "bots/shop/t") || d.Target != "main" || !d.Draft {
		t.Errorf("%+v", got.Deliveries)
	}
	if s := got.Suggestions; len(s) != 2 || s[0].Value != "main" || s[0].Refused != "" || s[1].Value != "bots/" || s[1].Refused != "" || !strings.HasPrefix(s[1].Why, "3 of the 6 branches") {
		t.Errorf("%+v", s)
	}
	// What cannot be chosen is said with the reason.
	got, err = w.Explain(ctx, row, []string{"fix/a", "fix/b"}, "", false)
	if err != nil || len(got.Suggestions) != 1 || got.Suggestions[0].Value != "fix/" || !strings.Contains(got.Suggestions[0].Refused, "does not match bots/**") {
		t.Errorf("%+v, %v", got.Suggestions, err)
	}
	// The forge protects the branches: a dry run says so. The operator's folder is the default.
	row.Policy = &api.RepositoryPolicy{Prefix: "bots/guarded-"}
	if got, err = w.Explain(ctx, row, nil, "main", true); err != nil || len(got.Refused) != 1 || got.Refused[0].Rule != "protected" {
		t.Errorf("%+v, %v", got, err)
	}
	row.Policy = nil
	if got, err = w.Explain(ctx, row, nil, "main", true); err != nil || len(got.Refused) > 0 || got.Fields[0].Value != "bots/" || got.Fields[0].From != api.FromOperator {
		t.Errorf("%+v, %v", got, err)
	}
	// A forge that does not answer is said, and no reason to refuse.
	w.tokens["ada"] = "none"
	if got, err = w.Explain(ctx, row, nil, "main", true); err != nil || got.NotChecked == "" || len(got.Refused) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
