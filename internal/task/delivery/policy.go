package delivery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/repository/forge/policy"
	"hortus.dev/internal/task/repo"
)

// operators returns the default policy with the configured values.
func operators(set config.Policy) policy.Policy {
	p := policy.Default()
	if set.Branch != "" {
		p.Branch = set.Branch
	}
	if len(set.Protected) > 0 {
		p.Protected = set.Protected
	}
	if set.MaxFiles > 0 {
		p.MaxFiles = set.MaxFiles
	}
	if set.MaxLines > 0 {
		p.MaxLines = set.MaxLines
	}
	if len(set.Forbidden) > 0 {
		p.Forbidden = set.Forbidden
	}
	p.Allow = append(p.Allow, set.Allow...)
	p.Targets, p.Draft = set.Targets, set.Draft
	return p
}

// Policy is the branch policy of the operator, for people.
func (d *Deliverer) Policy() api.DeliveryPolicy {
	p := d.policy
	return api.DeliveryPolicy{Branch: p.Branch, Protected: p.Protected, MaxFiles: p.MaxFiles, MaxLines: p.MaxLines, Forbidden: p.Forbidden, Allow: p.Allow, Targets: p.Targets, Draft: p.Draft}
}

// own returns the policy of the repository that a proposal is for: that of its remote, or else that of the address that the work started
// from. It is the policy of the task's account, also if another user delivers.
func (d *Deliverer) own(ctx context.Context, p repo.Proposal) (api.RepositoryPolicy, error) {
	for _, address := range []string{p.Remote, p.Source} {
		if address == "" {
			continue
		}
		row, err := d.policyOf(ctx, p.Task.Account, address)
		if err != nil {
			return api.RepositoryPolicy{}, err
		}
		if row.Policy != nil {
			return *row.Policy, nil
		}
	}
	return api.RepositoryPolicy{}, nil
}

// Terms implements repo.Deliverer.
func (d *Deliverer) Terms(ctx context.Context, p repo.Proposal) (repo.Terms, error) {
	own, err := d.own(ctx, p)
	if err != nil {
		return repo.Terms{}, err
	}
	return d.terms(own), nil
}

// terms are the choices of the operator and of a repository.
func (d *Deliverer) terms(own api.RepositoryPolicy) repo.Terms {
	t := repo.Terms{Prefix: d.policy.Prefix(exampleTask), From: map[string]string{}}
	t.From[api.PolicyPrefix] = api.FromBuiltIn
	if t.Prefix != policy.DefaultPrefix {
		t.From[api.PolicyPrefix] = api.FromOperator
	}
	if own.Prefix != "" {
		t.Prefix, t.From[api.PolicyPrefix] = own.Prefix, api.FromRepository
	}
	if own.Target != "" {
		t.Target, t.From[api.PolicyTarget] = own.Target, api.FromRepository
	}
	if own.Exists != "" {
		t.Rename, t.From[api.PolicyExists] = own.Exists == api.BranchRenamed, api.FromRepository
	}
	switch {
	case d.policy.Draft:
		t.Draft, t.From[api.PolicyDraft] = true, api.FromOperator
	case own.Draft != nil:
		t.Draft, t.From[api.PolicyDraft] = *own.Draft, api.FromRepository
	}
	return t
}

// Examples of the IDs that names of branches end with.
const (
	exampleTask    = "t7k2q9d4m1x8c5v3b6n0"
	exampleSession = "c7k2q9d4m1x8c5v3b6n0"
	examplePlan    = "p7k2q9d4m1x8c5v3b6n0"
)

// Admit returns why the operator's policy does not allow that of a repository, or nil.
func (d *Deliverer) Admit(own api.RepositoryPolicy) error {
	return d.policy.Admit(own, []string{exampleTask, exampleTask + "-2", exampleSession, examplePlan, examplePlan + "-item"})
}

// Explain says what follows from the policy of a repository: row.Policy, nil for none. branches are those of the remote, and head its
// default branch, as far as they are known. With ask, the forge is asked what it has against a delivery; nothing is changed there.
func (d *Deliverer) Explain(ctx context.Context, row api.Repository, branches []string, head string, ask bool) (api.RepositoryPolicyState, error) {
	var own api.RepositoryPolicy
	out := api.RepositoryPolicyState{Policy: row.Policy, Suggestions: []api.PolicySuggestion{}}
	if row.Policy != nil {
		own = *row.Policy
		out.Repository = row.Name
	}
	terms := d.terms(own)
	started := cmp.Or(row.Branch, head)
	for _, e := range []struct{ of, id string }{{"task", exampleTask}, {"session", exampleSession}, {"plan", examplePlan}} {
		out.Deliveries = append(out.Deliveries, api.ExampleDelivery{Of: e.of, Branch: terms.Prefix + e.id, Target: cmp.Or(terms.Target, started), Draft: terms.Draft})
	}
	out.Fields = d.fields(own, terms, started)
	out.Suggestions = append(out.Suggestions, d.suggest(own, terms, branches, head)...)
	task := out.Deliveries[0]
	about := policy.Delivery{Branch: task.Branch, Target: task.Target, Draft: task.Draft}
	if ask {
		f, err := d.Repository(ctx, row.URL)
		if err == nil {
			r, e := f.Repository(ctx)
			about.Default, about.Protected, err = r.DefaultBranch, r.Protected, e
		}
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if err != nil {
			out.NotChecked = api.AsError(err).Error()
		}
	}
	for _, r := range d.policy.Within(own).Check(about) {
		out.Refused = append(out.Refused, api.PolicyRefusal{Rule: r.Rule, Path: r.Path, Why: r.Why})
	}
	return out, nil
}

// fields are the values that hold.
func (d *Deliverer) fields(own api.RepositoryPolicy, terms repo.Terms, started string) []api.PolicyField {
	standard, holds := policy.Default(), d.policy.Within(own)
	from := func(repository, operator bool) string {
		switch {
		case repository:
			return api.FromRepository
		case operator:
			return api.FromOperator
		}
		return api.FromBuiltIn
	}
	value := func(name, text, from, why string) api.PolicyField {
		return api.PolicyField{Name: name, Value: text, From: from, Why: why}
	}
	yes := map[bool]string{false: "no", true: "yes"}
	target := value(api.PolicyTarget, cmp.Or(terms.Target, "the branch that the work started from"), from(terms.Target != "", false), "branch that merge requests aim at, if the task names none")
	if terms.Target == "" && started != "" {
		target.Why += "; here usually " + started
	}
	if len(d.policy.Targets) > 0 {
		target.Why += "; the operator allows " + strings.Join(d.policy.Targets, ", ")
	}
	return []api.PolicyField{
		value(api.PolicyPrefix, terms.Prefix, terms.From[api.PolicyPrefix], "begins the names of delivered branches, which must match "+d.policy.Branch),
		target,
		value(api.PolicyDraft, yes[terms.Draft], cmp.Or(terms.From[api.PolicyDraft], api.FromBuiltIn), "merge requests are drafts; with no, a task can still request it"),
		value(api.PolicyExists, terms.Existing(), cmp.Or(terms.From[api.PolicyExists], api.FromBuiltIn), "what happens if the branch exists at another commit: fail, or rename to NAME-2"),
		value(api.PolicyMaxFiles, strconv.Itoa(holds.MaxFiles), from(holds.MaxFiles != d.policy.MaxFiles, d.policy.MaxFiles != standard.MaxFiles), "maximum number of changed files"),
		value(api.PolicyMaxLines, strconv.Itoa(holds.MaxLines), from(holds.MaxLines != d.policy.MaxLines, d.policy.MaxLines != standard.MaxLines), "maximum number of added and deleted lines"),
		value(api.PolicyProtected, strings.Join(holds.Protected, ", "), from(len(own.Protected) > 0, !slices.Equal(d.policy.Protected, standard.Protected)), "branches that are never pushed to"),
		value(api.PolicyForbidden, strings.Join(slices.Concat(own.Forbidden, holds.Forbidden), ", "), from(len(own.Forbidden) > 0, !slices.Equal(d.policy.Forbidden, standard.Forbidden)), "paths that a delivery does not change"),
	}
}

// minNamed is how many branches must have a prefix so that it is suggested.
const minNamed = 2

// suggest derives choices from the branches of a repository.
func (d *Deliverer) suggest(own api.RepositoryPolicy, terms repo.Terms, branches []string, head string) (out []api.PolicySuggestion) {
	add := func(name, value, why string, with api.RepositoryPolicy) {
		s := api.PolicySuggestion{Name: name, Value: value, Why: why}
		if err := d.Admit(with); err != nil {
			s.Refused = api.AsError(err).Error()
		}
		out = append(out, s)
	}
	if own.Target == "" && head != "" {
		add(api.PolicyTarget, head, "it is the default branch of the repository", api.RepositoryPolicy{Target: head})
	}
	count, most := map[string]int{}, ""
	for _, b := range branches {
		prefix, _, ok := strings.Cut(b, "/")
		if prefix += "/"; !ok || prefix == policy.DefaultPrefix {
			continue
		}
		if count[prefix]++; count[prefix] > count[most] || count[prefix] == count[most] && prefix < most {
			most = prefix
		}
	}
	if count[most] >= minNamed && most != terms.Prefix {
		add(api.PolicyPrefix, most, fmt.Sprintf("%d of the %d branches begin with it", count[most], len(branches)), api.RepositoryPolicy{Prefix: most})
	}
	return out
}
