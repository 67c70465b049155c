package delivery

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/rest"
	"hortus.dev/internal/repository/git"
)

// hostsWith are the hosts, with the kind of the forge of a remote if that is known.
func (d *Deliverer) hostsWith(remote, kind string) map[string]string {
	u, err := url.Parse(remote)
	if err != nil || kind == "" || u.Host == "" {
		return d.hosts
	}
	hosts := maps.Clone(d.hosts)
	if host := strings.ToLower(u.Host); hosts[host] == "" {
		hosts[host] = kind
	}
	return hosts
}

// locate finds the repository of a remote at its forge, whose kind may be known.
func (d *Deliverer) locate(ctx context.Context, remote, kind string) (forge.Location, error) {
	l, err := forge.Locate(remote, d.hostsWith(remote, kind))
	if err != nil {
		return l, err
	}
	return forge.Probe(ctx, l, d.http)
}

// sourceWith is a remote with the token of a connected repository, which was given for exactly this address.
func (d *Deliverer) sourceWith(ctx context.Context, row api.Repository, remote string) (git.Source, error) {
	src := git.Source{URL: remote}
	u, err := url.Parse(remote)
	if err != nil || forge.CheckAPI(u.Scheme+"://"+u.Host) != nil {
		return src, api.Errorf(api.KindInvalid, "%s would get the token of secret %s without TLS", git.DisplayAddress(remote), row.Secret).WithHint("Use https; http is for this machine alone.")
	}
	token, err := d.tokenOf(ctx, row, "git", remote)
	if err == nil {
		err = forge.CheckToken(token)
	}
	if err != nil {
		return src, err
	}
	src.Auth = &git.Auth{Username: gitUser[row.Forge], Token: token}
	return src, nil
}

// Rights tests what an account may do with a repository. Nothing is changed. A right that is missing is no error.
func (d *Deliverer) Rights(ctx context.Context, account string, req api.CheckRepository) (api.RepositoryAccess, error) {
	remote, secret := req.URL, req.Secret
	out := api.RepositoryAccess{Rights: []api.RepositoryRight{}}
	u, err := url.Parse(remote)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return out, nil // SSH and directories: the fetch shows it
	}
	l, err := d.locate(ctx, remote, "")
	switch k := api.KindOf(err); {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err == nil:
		out.Forge = l.Kind
	case k != api.KindUnsupported && k != api.KindUnavailable && k != api.KindInvalid:
		return out, err
	}
	row := api.Repository{Account: account, Secret: secret, Forge: out.Forge, App: req.App}
	var src git.Source
	var grant rest.Grant
	switch {
	case req.App != nil:
		var refused error
		if grant, refused, err = d.test(ctx, row, l, remote); refused != nil {
			out.Rights = append(out.Rights, api.RepositoryRight{Right: api.RightRead, Reason: api.AsError(refused).Error(), Fix: api.HintOf(refused)})
			return out, ctx.Err()
		}
		if err == nil {
			src, err = d.sourceWith(ctx, row, remote)
		}
	case secret != "":
		src, err = d.sourceWith(ctx, row, remote)
	default:
		src, err = d.SourceOf(ctx, account, remote)
	}
	if err != nil {
		return out, err
	}
	add := func(right string, err error) {
		if missing := grant.Lacks(permissionsOf[right]...); req.App != nil && len(missing) > 0 {
			err = lacking(grant, missing)
			out.Rights = append(out.Rights, api.RepositoryRight{Right: right, Reason: err.Error(), Fix: api.HintOf(err)})
			return
		}
		r := api.RepositoryRight{Right: right, OK: err == nil}
		if err != nil {
			r.Reason, r.Fix = api.AsError(err).Error(), cmp.Or(api.HintOf(err), fixes[right][out.Forge])
			if k := api.KindOf(err); k == api.KindDenied || k == api.KindUnauthenticated {
				r.Fix = cmp.Or(fixes[right][out.Forge], r.Fix)
			}
		}
		out.Rights = append(out.Rights, r)
	}
	add(api.RightRead, d.service(ctx, src, "git-upload-pack"))
	add(api.RightPush, d.service(ctx, src, "git-receive-pack"))
	if out.Forge == "" {
		return out, ctx.Err()
	}
	add(api.RightMergeRequest, func() error {
		if src.Auth == nil {
			return api.Errorf(api.KindUnauthenticated, "there is no token for %s", l.Host)
		}
		f, err := rest.New(rest.Config{Location: l, Token: src.Auth.Token, HTTP: d.http})
		if err != nil {
			return err
		}
		r, err := f.Repository(ctx)
		if err != nil {
			return err
		}
		out.Page, out.DefaultBranch, out.Protected = r.URL, r.DefaultBranch, r.Protected
		return f.MayOpen(ctx, r)
	}())
	if req.App != nil {
		add(api.RightIssues, nil)
		add(api.RightChecks, nil)
	}
	return out, ctx.Err()
}

// fixes say which permission of a token gives a right, by the kind of the forge.
var fixes = map[string]map[string]string{
	api.RightRead: {
		forge.GitHub: "Give the token access to the repository and the permission Contents: read, or the classic scope repo.",
		forge.GitLab: "Create a token with the scope api, or read_repository, of a user with the role Reporter or more.",
		forge.Gitea:  "Create a token with the scope write:repository, or read:repository, of a user who may read the repository.",
	},
	api.RightPush: {
		forge.GitHub: "Give the token the permission Contents: write, or the classic scope repo.",
		forge.GitLab: "Create a token with the scope api of a user with the role Developer or more.",
		forge.Gitea:  "Create a token with the scope write:repository of a user who may write to the repository.",
	},
	api.RightMergeRequest: {
		forge.GitHub: "Give the token the permission Pull requests: write, or the classic scope repo.",
		forge.GitLab: "Create a token with the scope api of a user with the role Developer or more.",
		forge.Gitea:  "Create a token with the scope write:repository.",
	},
}

const (
	serviceTime  = 15 * time.Second
	maxRedirects = 3
)

// service asks a git server over HTTP whether a service may be used, as git does before a fetch and before a push. Redirects are
// followed on the same host only.
func (d *Deliverer) service(ctx context.Context, src git.Source, name string) error {
	ctx, cancel := context.WithTimeout(ctx, serviceTime)
	defer cancel()
	u, err := url.Parse(src.URL)
	if err != nil {
		return api.Errorf(api.KindInvalid, "the address of the repository cannot be read")
	}
	u = u.JoinPath("info/refs")
	u.RawQuery, u.User = "service="+name, nil
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return api.Errorf(api.KindInvalid, "the address of the repository cannot be read")
	}
	if src.Auth != nil {
		req.Header.Set("Authorization", "Basic "+src.Auth.Basic())
	}
	c := http.Client{Transport: d.http.Transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != u.Scheme || r.URL.Host != u.Host || len(via) > maxRedirects {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := c.Do(req)
	if err != nil {
		if ctx.Err() == nil || context.Cause(ctx) == context.DeadlineExceeded {
			return api.Errorf(api.KindUnavailable, "%s does not answer", u.Host).WithHint("Check the address and the network of the daemon.")
		}
		return ctx.Err()
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	switch code := resp.StatusCode; {
	case code == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-"+name):
		return nil
	case code == http.StatusUnauthorized && src.Auth == nil:
		return api.Errorf(api.KindUnauthenticated, "%s wants a token", u.Host)
	case code == http.StatusUnauthorized:
		return api.Errorf(api.KindUnauthenticated, "%s rejects the token", u.Host)
	case code == http.StatusForbidden:
		return api.Errorf(api.KindDenied, "%s refuses %s with this token", u.Host, map[string]string{"git-upload-pack": "a fetch", "git-receive-pack": "a push"}[name])
	case code == http.StatusNotFound:
		return api.Errorf(api.KindNotFound, "%s has no such repository, or the token may not see it", u.Host).WithHint("Check the address, and the access of the token to this repository.")
	case code == http.StatusTooManyRequests:
		return api.Errorf(api.KindExhausted, "%s limits the rate of requests", u.Host).WithHint("Test it again later.")
	default:
		return api.Errorf(api.KindUnavailable, "%s answers with %d, not as a git server", u.Host, code).WithHint("Check the address of the repository.")
	}
}
