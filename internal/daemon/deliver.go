package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/config"
	"hortus.dev/internal/forge"
	"hortus.dev/internal/forge/gitea"
	"hortus.dev/internal/forge/github"
	"hortus.dev/internal/forge/gitlab"
	"hortus.dev/internal/forge/policy"
	"hortus.dev/internal/git"
	"hortus.dev/internal/task/repo"
)

// deliverer pushes nothing itself: it knows the tokens, the policy and the forges.
// It implements repo.Deliverer.
type deliverer struct {
	accounts []forge.Account
	hosts    map[string]string
	policy   policy.Policy
	http     *http.Client
}

func newDeliverer(getenv func(string) string, forges []config.Forge, set config.Policy, base http.RoundTripper) (*deliverer, error) {
	d := &deliverer{policy: policyOf(set), http: &http.Client{Transport: base}}
	if err := d.policy.Validate(); err != nil {
		return nil, err
	}
	for _, f := range forges {
		a := forge.Account{Kind: f.Kind, Host: f.Host, Web: f.URL, File: f.TokenFile}
		if f.TokenEnv != "" {
			a.Token = strings.TrimSpace(getenv(f.TokenEnv))
		}
		d.accounts = append(d.accounts, a)
	}
	// What the configuration says of a host goes before what the environment does.
	d.accounts = append(d.accounts, forge.Accounts(getenv)...)
	d.hosts = forge.Hosts(d.accounts)
	return d, nil
}

// policyOf is the default policy with what was set.
func policyOf(set config.Policy) policy.Policy {
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
	return p
}

// Source implements repo.Deliverer: a token goes to the host that it is for, over
// https alone, or to this machine.
func (d *deliverer) Source(remote string) (git.Source, error) {
	src := git.Source{URL: remote}
	u, err := url.Parse(remote)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return src, nil
	}
	if l, err := forge.Locate(remote, d.hosts); err == nil && l.Kind != "" {
		if a, err := forge.Find(d.accounts, l); err == nil {
			token, err := a.Secret()
			if err != nil {
				return src, err
			}
			src.Auth = &git.Auth{Username: gitUser[l.Kind], Token: token}
			return src, nil
		}
	}
	return src, nil
}

// gitUser is whom a token is given as.
var gitUser = map[string]string{forge.GitHub: "x-access-token", forge.GitLab: "oauth2", forge.Gitea: "x-access-token"}

// Check implements repo.Deliverer.
func (d *deliverer) Check(p repo.Proposal) []api.PolicyRefusal { return d.check(p, policy.Delivery{}) }

// check asks the policy; about says what the forge tells of the repository.
func (d *deliverer) check(p repo.Proposal, about policy.Delivery) (out []api.PolicyRefusal) {
	about.Branch, about.Target, about.Files = p.Branch, p.Target, p.Files
	for _, r := range d.policy.Check(about) {
		out = append(out, api.PolicyRefusal{Rule: r.Rule, Path: r.Path, Why: r.Why})
	}
	return out
}

// Open implements repo.Deliverer.
func (d *deliverer) Open(ctx context.Context, p repo.Proposal) (api.Delivery, error) {
	l, err := forge.Locate(p.Remote, d.hosts)
	if err != nil {
		return api.Delivery{}, err
	}
	if l, err = forge.Probe(ctx, l, d.http); err != nil {
		return api.Delivery{}, err
	}
	a, err := forge.Find(d.accounts, l)
	if err != nil {
		return api.Delivery{}, err
	}
	token, err := a.Secret()
	if err != nil {
		return api.Delivery{}, err
	}
	f, err := d.forge(l, token)
	if err != nil {
		return api.Delivery{}, err
	}
	about, err := f.Repository(ctx)
	if err != nil {
		return api.Delivery{}, err
	}
	if p.Target == "" {
		p.Target = about.DefaultBranch
	}
	// Once more, with what the forge knows.
	if refused := d.check(p, policy.Delivery{Default: about.DefaultBranch, Protected: about.Protected}); len(refused) > 0 {
		return api.Delivery{Refused: refused}, api.Errorf(api.KindDenied, "the branch policy refuses to deliver: %s", refused[0].Why)
	}
	mr, err := f.Open(ctx, forge.Request{
		Source: p.Branch, Target: p.Target, Title: forge.Title(p.Task.Create.Request),
		Body: forge.Body(evidence(p)), Draft: p.Task.Create.Repo.Draft, Commit: p.Task.Repo.Head,
	})
	return api.Delivery{Forge: f.Name(), URL: mr.URL, Number: mr.Number, Created: mr.Created, Target: p.Target}, err
}

// forge lists the forges that are compiled in.
func (d *deliverer) forge(l forge.Location, token string) (forge.Forge, error) {
	switch l.Kind {
	case forge.GitHub:
		return github.New(github.Config{Location: l, Token: token, HTTP: d.http})
	case forge.GitLab:
		return gitlab.New(gitlab.Config{Location: l, Token: token, HTTP: d.http})
	case forge.Gitea:
		return gitea.New(gitea.Config{Location: l, Token: token, HTTP: d.http})
	}
	return nil, api.Errorf(api.KindUnsupported, "%s is no forge that is known here", l.Host).
		WithHint("Say which it is: [forge.%q] kind = ... in the configuration.", l.Host)
}

// evidence is what a reviewer is shown.
func evidence(p repo.Proposal) forge.Evidence {
	t, r := p.Task, p.Task.Repo
	e := forge.Evidence{
		Task: string(t.ID), Model: t.Model, Summary: r.Summary, Usage: t.Usage, Base: r.Commit, Commit: r.Head,
		Reproduce: []string{"git fetch origin " + p.Branch, "git checkout " + p.Branch, r.Verify},
	}
	for _, f := range p.Files {
		e.Files = append(e.Files, forge.Change{Path: f.Path, From: f.From, Status: f.Status, Added: f.Added, Deleted: f.Deleted})
	}
	for _, f := range r.Files {
		if f.Test {
			e.Tests = append(e.Tests, forge.TestChange{Name: f.Path, Change: policyWord(f.Status)})
		}
	}
	if n := len(r.Rounds); n > 0 {
		last := r.Rounds[n-1]
		if g := last.Gate; g != nil {
			e.Gate = &forge.Gate{Command: g.Command, ExitCode: g.Exit.Code, Unknown: g.Exit.Cause, Output: g.Output, Where: g.Isolation,
				Duration: time.Duration(g.MS) * time.Millisecond}
		}
		if last.Original != nil {
			e.Look = append(e.Look, "The tests, or files that rule over them, were changed. The gate passes with the original ones too.")
			if !last.Original.Passed {
				e.Look[len(e.Look)-1] = "The gate passes with the changed tests only; with the original ones it fails. The person who asked allowed that."
			}
		}
		if n > 1 {
			e.Look = append(e.Look, fmt.Sprintf("It took %d rounds: the gate failed on the way.", n))
		}
		if b := r.Before; b != nil && b.Passed {
			e.Look = append(e.Look, "The gate passed before the change as well, so it does not show what the change does.")
		}
	}
	if n := len(r.Refused); n > 0 {
		e.Look = append(e.Look, fmt.Sprintf("%d files of the agent's were refused and are not part of this.", n))
	}
	return e
}

// policyWord is what became of a file, in the forge's words.
func policyWord(status string) string {
	switch status {
	case "modified", "type changed":
		return "changed"
	case "deleted":
		return "removed"
	}
	return status
}
