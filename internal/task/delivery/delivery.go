package delivery

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/policy"
	"hortus.dev/internal/repository/forge/rest"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/task/repo"
)

// Config is what deliveries are made with.
type Config struct {
	// Getenv reads the variables with the tokens of forges.
	Getenv func(string) string
	// Key returns the value of a secret of the operator, for a purpose and an address. It is
	// called at each use of a token. nil means that there are no secrets.
	Key func(ctx context.Context, name, purpose, address string) (string, error)
	// Connected returns the repository that an account has connected with the address of a remote; an empty one for others. nil if there
	// are none. KeyOf returns the value of a secret of an account.
	Connected func(ctx context.Context, account, remote string) (api.Repository, error)
	// PolicyOf returns the repository whose branch policy holds for an account and the address of a remote; an empty one if there is none.
	PolicyOf func(ctx context.Context, account, remote string) (api.Repository, error)
	KeyOf    func(ctx context.Context, account, name, purpose, address string) (string, error)
	// Forges are the hosts that the configuration names.
	Forges []config.Forge
	Policy config.Policy
	// Transport carries the calls of the forges' APIs.
	Transport http.RoundTripper
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Deliverer has the tokens, the policy and the forges. It pushes nothing itself. It
// implements repo.Deliverer.
type Deliverer struct {
	accounts  []forge.Account
	hosts     map[string]string
	connected func(ctx context.Context, account, remote string) (api.Repository, error)
	policyOf  func(ctx context.Context, account, remote string) (api.Repository, error)
	keyOf     func(ctx context.Context, account, name, purpose, address string) (string, error)
	key       func(ctx context.Context, name, purpose, address string) (string, error)
	policy    policy.Policy
	http      *http.Client
	apps      *installations
}

// New creates a Deliverer. The error is KindInvalid for a policy that makes no sense.
func New(cfg Config) (*Deliverer, error) {
	if cfg.Key == nil {
		cfg.Key = func(context.Context, string, string, string) (string, error) {
			return "", api.Errorf(api.KindUnsupported, "this daemon keeps no secrets")
		}
	}
	if cfg.Connected == nil {
		cfg.Connected = func(context.Context, string, string) (api.Repository, error) { return api.Repository{}, nil }
	}
	if cfg.PolicyOf == nil {
		cfg.PolicyOf = func(context.Context, string, string) (api.Repository, error) { return api.Repository{}, nil }
	}
	d := &Deliverer{key: cfg.Key, connected: cfg.Connected, policyOf: cfg.PolicyOf, keyOf: cfg.KeyOf, policy: operators(cfg.Policy), http: &http.Client{Transport: cfg.Transport}}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	d.apps = &installations{http: d.http, now: cfg.Now, grants: map[string]rest.Grant{}}
	if err := d.policy.Validate(); err != nil {
		return nil, err
	}
	for _, f := range cfg.Forges {
		a := forge.Account{Kind: f.Kind, Host: f.Host, Web: f.URL, File: f.TokenFile, Named: f.TokenSecret}
		if f.TokenEnv != "" {
			a.Token = strings.TrimSpace(cfg.Getenv(f.TokenEnv))
		}
		d.accounts = append(d.accounts, a)
	}
	// For the same host the configuration takes precedence over the environment.
	d.accounts = append(d.accounts, forge.Accounts(cfg.Getenv)...)
	d.hosts = forge.Hosts(d.accounts)
	return d, nil
}

// Source implements repo.Deliverer, for the account of ctx.
func (d *Deliverer) Source(ctx context.Context, remote string) (git.Source, error) {
	return d.SourceOf(ctx, api.PrincipalOf(ctx).Account, remote)
}

// SourceOf returns a remote with the token that an account uses for it: that of the repository that it connected, or else that of the
// daemon. It adds a token only for the host that the token is for, and only over https or to this machine.
func (d *Deliverer) SourceOf(ctx context.Context, account, remote string) (git.Source, error) {
	src := git.Source{URL: remote}
	u, err := url.Parse(remote)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return src, nil
	}
	row, err := d.connected(ctx, account, remote)
	if err != nil {
		return src, err
	}
	if row.Secret != "" {
		return d.sourceWith(ctx, row, remote)
	}
	l, err := forge.Locate(remote, d.hosts)
	if err != nil || l.Kind == "" {
		return src, nil
	}
	a, err := forge.Find(d.accounts, l)
	if err != nil {
		return src, nil // a public repository needs no token
	}
	// Locate maps every port of a configured host to its forge, which may have another
	// address. The token is sent only to that address and to the host as configured, and
	// never over plain http to another machine.
	host := strings.ToLower(strings.TrimSuffix(u.Host, ":443"))
	set, _, _ := strings.Cut(a.Host, "/")
	if forge.CheckAPI(u.Scheme+"://"+u.Host) != nil || host != l.Host && host != set {
		return src, nil
	}
	token, err := a.Secret(ctx, d.keyFor("git", remote))
	if err != nil {
		return src, err
	}
	src.Auth = &git.Auth{Username: gitUser[l.Kind], Token: token}
	return src, nil
}

// keyFor returns what reads secrets for a purpose.
func (d *Deliverer) keyFor(purpose, address string) func(ctx context.Context, name string) (string, error) {
	return func(ctx context.Context, name string) (string, error) { return d.key(ctx, name, purpose, address) }
}

// gitUser is the user name that each kind of forge expects with a token.
var gitUser = map[string]string{forge.GitHub: "x-access-token", forge.GitLab: "oauth2", forge.Gitea: "x-access-token"}

// Check implements repo.Deliverer.
func (d *Deliverer) Check(ctx context.Context, p repo.Proposal) (repo.Verdict, error) {
	own, err := d.own(ctx, p)
	if err != nil {
		return repo.Verdict{Target: p.Target}, err
	}
	about := policy.Delivery{Branch: p.Branch, Target: p.Target, Draft: p.Draft, Stacked: p.Part != nil && p.Part.N > 1, Files: p.Files}
	if p.MergeRequest {
		f, err := d.Repository(ctx, p.Remote)
		if err != nil {
			return repo.Verdict{Target: p.Target}, err
		}
		if e := p.Earlier; e != nil && e.Number > 0 {
			if merged, err := stillOpen(ctx, f, p); err != nil || merged {
				return repo.Verdict{Target: cmp.Or(e.Target, p.Target), Merged: merged}, err
			}
		}
		r, err := f.Repository(ctx)
		if err != nil {
			return repo.Verdict{Target: p.Target}, err
		}
		about.Default, about.Protected = r.DefaultBranch, r.Protected
		about.Target = cmp.Or(about.Target, r.DefaultBranch)
		switch {
		case r.Archived:
			return repo.Verdict{Target: about.Target}, api.Errorf(api.KindDenied, "%s is archived: it accepts no branches and no merge requests", r.URL).
				WithHint("Unarchive it, or deliver to another repository with --remote.")
		case about.Target == "":
			return repo.Verdict{}, api.Errorf(api.KindConflict, "%s has no branch that a merge request could target", r.URL).
				WithHint("Push a first branch, or set one with --target.")
		}
	}
	v := repo.Verdict{Target: about.Target}
	for _, r := range d.policy.Within(own).Check(about) {
		v.Refused = append(v.Refused, api.PolicyRefusal{Rule: r.Rule, Path: r.Path, Why: r.Why})
	}
	return v, nil
}

// Open implements repo.Deliverer.
func (d *Deliverer) Open(ctx context.Context, p repo.Proposal) (api.Delivery, error) {
	f, err := d.Repository(ctx, p.Remote)
	if err != nil {
		return api.Delivery{}, err
	}
	e := evidence(p)
	if address := p.Task.Create.Repo.Issue; address != "" {
		if e.See = address; d.sameRepository(address, p.Remote) {
			_, e.Closes, _ = forge.SplitIssue(address)
		}
	}
	mr, err := f.Open(ctx, forge.Request{
		Source: p.Branch, Target: p.Target, Title: forge.Title(cmp.Or(p.Task.Repo.Title, p.Task.Create.Request)),
		Body: forge.Body(e), Draft: p.Draft, Commit: p.Task.Repo.Head, KeepTitle: p.Earlier != nil,
	})
	return api.Delivery{Forge: f.Name(), URL: mr.URL, Number: mr.Number, Created: mr.Created, Target: p.Target}, err
}

// stillOpen refuses to continue a merge request that was merged or closed. merged is true for one of a stack: the others are delivered.
func stillOpen(ctx context.Context, f forge.Forge, p repo.Proposal) (merged bool, err error) {
	state, err := f.State(ctx, p.Earlier.Number)
	if err != nil || state == forge.Open {
		return false, err
	}
	if p.Part != nil && state == forge.Merged {
		return true, nil
	}
	of, hint := "session", "Continue in another session, which gets a branch and a merge request of its own: hortus session fork KEY NEWKEY."
	if r := p.Task.Create.Repo; r != nil && r.Item != nil {
		of, hint = "plan", "Reopen it, or start another plan."
	}
	return false, api.Errorf(api.KindConflict, "the merge request of this %s, %s, was %s; nothing was pushed", of, p.Earlier.URL, state).WithHint("%s", hint)
}

// sameRepository reports whether an issue is one of the repository of a remote.
func (d *Deliverer) sameRepository(issue, remote string) bool {
	repository, _, err := forge.SplitIssue(issue)
	if err != nil {
		return false
	}
	a, err := forge.Locate(repository, d.hosts)
	b, berr := forge.Locate(remote, d.hosts)
	return err == nil && berr == nil && a.Kind == b.Kind && a.Host == b.Host && strings.EqualFold(a.Path(), b.Path())
}

// Issue implements repo.Deliverer. It connects only to hosts that are public forges or configured, with the token for the host if
// there is one.
func (d *Deliverer) Issue(ctx context.Context, address string) (forge.Issue, error) {
	repository, n, err := forge.SplitIssue(address)
	if err != nil {
		return forge.Issue{}, err
	}
	row, err := d.connected(ctx, api.PrincipalOf(ctx).Account, repository)
	if err != nil {
		return forge.Issue{}, err
	}
	l, err := forge.Locate(repository, d.hostsWith(repository, row.Forge))
	if err != nil {
		return forge.Issue{}, err
	}
	if l.Kind == "" {
		return forge.Issue{}, api.Errorf(api.KindUnsupported, "%s is not a forge that is configured here, so its issues are not read", l.Host).
			WithHint("Set its kind in [forge.%q] of the configuration, or pass the text with --context FILE.", l.Host)
	}
	cfg := rest.Config{Location: l, HTTP: d.http, Public: true}
	if row.Secret != "" {
		if cfg.Token, err = d.tokenOf(ctx, row, "forge", repository); err != nil {
			return forge.Issue{}, err
		}
	} else if a, err := forge.Find(d.accounts, l); err == nil {
		if cfg.Token, err = a.Secret(ctx, d.keyFor("forge", repository)); err != nil {
			return forge.Issue{}, err
		}
	}
	f, err := rest.New(cfg)
	if err != nil {
		return forge.Issue{}, err
	}
	return f.Issue(ctx, n)
}

// Review reads what people and checks say about a merge request of the repository of a remote. Remarks that are known are left out.
func (d *Deliverer) Review(ctx context.Context, remote string, number int, known func(id string) bool) (forge.Review, error) {
	f, err := d.Repository(ctx, remote)
	if err != nil {
		return forge.Review{}, err
	}
	return f.Review(ctx, number, known)
}

// Repository opens the repository of a remote at its forge, with the token that the account of ctx has for it.
func (d *Deliverer) Repository(ctx context.Context, remote string) (*rest.Forge, error) {
	row, err := d.connected(ctx, api.PrincipalOf(ctx).Account, remote)
	if err != nil {
		return nil, err
	}
	l, err := d.locate(ctx, remote, row.Forge)
	if err != nil {
		return nil, err
	}
	if row.Secret != "" {
		token, err := d.tokenOf(ctx, row, "forge", remote)
		if err != nil {
			return nil, err
		}
		return rest.New(rest.Config{Location: l, Token: token, HTTP: d.http})
	}
	a, err := forge.Find(d.accounts, l)
	if err != nil {
		return nil, err
	}
	token, err := a.Secret(ctx, d.keyFor("forge", remote))
	if err != nil {
		return nil, err
	}
	return rest.New(rest.Config{Location: l, Token: token, HTTP: d.http})
}

// Location finds the repository of a remote at its forge, whose kind is known if it is not empty. It sends no request.
func (d *Deliverer) Location(remote, kind string) (forge.Location, error) {
	return forge.Locate(remote, d.hostsWith(remote, kind))
}

// variables lists the variables with tokens of forges: for each kind the usual name, and
// the names with OwnPrefix for a token, a token file, a host and a base URL.
func variables() []string {
	names := []string{"GH_TOKEN"}
	for _, kind := range config.ForgeKinds() {
		kind = strings.ToUpper(kind)
		names = append(names, kind+"_TOKEN")
		for _, end := range []string{"TOKEN", "TOKEN_FILE", "HOST", "URL"} {
			names = append(names, config.OwnPrefix+kind+"_"+end)
		}
	}
	return names
}

// Fingerprint identifies the values of the variables that forges are reached with. more
// are the variables that a configuration names.
func Fingerprint(getenv func(string) string, more []string) string {
	more = slices.Sorted(slices.Values(more))
	return config.Fingerprint(getenv, append(variables(), slices.Compact(more)...))
}

// TokenVariables lists the variables that the configuration names.
func TokenVariables(forges []config.Forge) (names []string) {
	for _, f := range forges {
		if f.TokenEnv != "" {
			names = append(names, f.TokenEnv)
		}
	}
	return names
}
