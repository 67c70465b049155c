package openid

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"hortus.dev/api"
)

const (
	// CallbackPath is where the provider sends the browser, below the public URL.
	CallbackPath = "/console/oidc/callback"
	// Life is the maximum time of a sign-in.
	Life = 10 * time.Minute

	// skew is the maximum difference between the clocks of the provider and this machine.
	skew = time.Minute
	// metadataLife is the time after which the metadata of the provider is read again.
	metadataLife = 10 * time.Minute
	// requestTime and maxAnswer bound a request to the provider.
	requestTime = 15 * time.Second
	maxAnswer   = 1 << 20
	// maxCode is the maximum length of a code and a state.
	maxCode = 4 << 10
)

// Config is what sign-ins need. Issuer, ClientID, PublicURL and Rules are required.
type Config struct {
	// Issuer is the URL of the provider, as in its tokens.
	Issuer, ClientID string
	// Secret returns the client's secret; nil for a client without one.
	Secret func(ctx context.Context, address string) (string, error)
	// PublicURL is where browsers reach the console.
	PublicURL string
	// Scopes are asked for besides openid.
	Scopes []string
	// Domains are those that e-mail addresses may have; none are all.
	Domains []string
	// Claim is the name of the claim that rules are about.
	Claim string
	// Rules are in their order; see ParseRule.
	Rules []Rule
	// Key encrypts sign-ins in cookies, and Use notes that one ended; false if it had before. Providers with the same end each other's sign-ins.
	Key []byte
	Use func(ctx context.Context, state string, ends time.Time) (bool, error)
	// Transport is for requests to the provider; nil is http.DefaultTransport.
	Transport http.RoundTripper
	Now       func() time.Time // nil means time.Now
}

// Provider is a provider of OpenID Connect.
type Provider struct {
	cfg    Config
	client *http.Client
	seal   sealer

	mu    sync.Mutex
	known *metadata
}

// metadata is what the provider says of itself.
type metadata struct {
	provider *oidc.Provider
	readAt   time.Time
}

// New checks a configuration. The provider is not asked.
func New(cfg Config) (*Provider, error) {
	public, err := url.Parse(cfg.PublicURL)
	switch {
	case cfg.PublicURL == "" || err != nil || public.Host == "" || strings.Trim(public.Path, "/") != "" || public.RawQuery != "" || public.Fragment != "":
		return nil, api.Errorf(api.KindInvalid, "sign-in with oidc.issuer needs the URL of the console, and serve.public-url is %.100q", cfg.PublicURL).
			WithHint("set serve.public-url (--public-url) to a URL without a path, such as https://hortus.example.org")
	case !secureURL(cfg.Issuer):
		return nil, api.Errorf(api.KindInvalid, "oidc.issuer %.200q is not an https:// URL", cfg.Issuer).
			WithHint("use the issuer as the provider writes it into its tokens, such as https://id.example.org/realms/team; http:// is possible for a provider on this machine")
	case cfg.ClientID == "":
		return nil, api.Errorf(api.KindInvalid, "oidc.client-id is missing").WithHint("set it to the ID of the client that you registered at %s", cfg.Issuer)
	case cfg.Claim == "":
		return nil, api.Errorf(api.KindInvalid, "oidc.claim is missing").WithHint("set it to the name of the claim that oidc.rules are about, such as groups or email")
	case len(cfg.Rules) == 0:
		return nil, api.Errorf(api.KindInvalid, "oidc.rules is missing: no user can sign in with %s", cfg.Issuer).
			WithHint(`set it to rules such as ["hortus-admins=default:admin", "developers=team"]`)
	}
	for _, r := range cfg.Rules {
		if r.Value == anybody && len(cfg.Domains) == 0 {
			return nil, api.Errorf(api.KindInvalid, "the rule %s of oidc.rules lets in everybody who has an account at %s", r, cfg.Issuer).
				WithHint("set oidc.domains to the e-mail domains of your people, or name values of the claim")
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport
	}
	seal, err := newSealer(cfg.Key)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "sign-in with OpenID Connect: %w", err)
	}
	client := &http.Client{
		Transport: bounded{cfg.Transport}, Timeout: requestTime,
		// A redirected request would take the client's secret to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Provider{cfg: cfg, client: client, seal: seal}, nil
}

// bounded is a transport whose answers have a maximum size.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// secureURL reports whether a URL is encrypted, or of this machine.
func secureURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback())
}

// Issuer returns the URL of the provider.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// PublicURL returns the URL of the console, without a slash at its end.
func (p *Provider) PublicURL() string { return strings.TrimRight(p.cfg.PublicURL, "/") }

// provider returns the provider with its metadata. Several goroutines may read it at the same time.
func (p *Provider) provider(ctx context.Context) (*oidc.Provider, error) {
	now := p.cfg.Now()
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil && now.Sub(known.readAt) < metadataLife {
		return known.provider, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	if err != nil {
		return nil, api.Errorf(api.KindUnavailable, "the metadata of %s cannot be used: %w", p.cfg.Issuer, err).
			WithHint("the administrator checks oidc.issuer, and that the daemon's machine reaches %s/.well-known/openid-configuration", strings.TrimRight(p.cfg.Issuer, "/"))
	}
	var ends struct {
		Keys string `json:"jwks_uri"`
	}
	if err := found.Claims(&ends); err != nil {
		return nil, api.Errorf(api.KindUnavailable, "the metadata of %s cannot be used: %w", p.cfg.Issuer, err)
	}
	for _, address := range []string{found.Endpoint().AuthURL, found.Endpoint().TokenURL, ends.Keys} {
		if !secureURL(address) {
			return nil, api.Errorf(api.KindUnavailable, "the metadata of %s has the address %.200q, which is not encrypted", p.cfg.Issuer, address).
				WithHint("the administrator configures https:// addresses at the provider")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = &metadata{found, now}
	return found, nil
}

// client returns what speaks to the provider for this client.
func (p *Provider) oauth(found *oidc.Provider, secret string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: secret, Endpoint: found.Endpoint(), RedirectURL: p.PublicURL() + CallbackPath,
		Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}
}

// Begun is a sign-in that began in a browser.
type Begun struct {
	// URL is the page of the provider.
	URL string
	// Cookie and Page are the two secrets of the sign-in: one for a cookie, one for the storage of the page.
	Cookie, Page string
}

// attempt is what the cookie of a sign-in has, encrypted.
type attempt struct {
	Ends                   time.Time
	State, Nonce, Verifier string
	Page                   string // its hash
}

// Begin begins a sign-in.
func (p *Provider) Begin(ctx context.Context) (Begun, error) {
	found, err := p.provider(ctx)
	if err != nil {
		return Begun{}, err
	}
	page := rand.Text() + rand.Text()
	a := attempt{Ends: p.cfg.Now().Add(Life), State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Page: hash(page)}
	cookie, err := p.seal.seal(a)
	if err != nil {
		return Begun{}, api.Errorf(api.KindInternal, "begin of a sign-in: %w", err)
	}
	to := p.oauth(found, "").AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier))
	return Begun{URL: to, Cookie: cookie, Page: page}, nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Answer is what a browser brings from the provider, with the secrets of its sign-in.
type Answer struct {
	Cookie, Page string
	State, Code  string
	// Issuer is that of the parameter iss (RFC 9207); empty if there is none.
	Issuer string
}

// Result is a person whom the provider knows.
type Result struct {
	Person  api.Person
	Account string
	Role    api.Role
	// Denied says why the person may not use Hortus; nil if the person may.
	Denied error
}

// Finish ends a sign-in. An error means that it is not known who the person is.
func (p *Provider) Finish(ctx context.Context, in Answer) (Result, error) {
	a, err := p.begun(ctx, in)
	if err != nil {
		return Result{}, err
	}
	found, err := p.provider(ctx)
	if err != nil {
		return Result{}, err
	}
	raw, err := p.exchange(ctx, found, in.Code, a.Verifier)
	if err != nil {
		return Result{}, err
	}
	verifier := found.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: func() time.Time { return p.cfg.Now().Add(-skew) }})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return Result{}, api.Errorf(api.KindUnauthenticated, "the ID token of %s is not valid: %w", p.cfg.Issuer, err).
			WithHint("try again; if it fails again, the administrator checks oidc.issuer, oidc.client-id and the clocks of both machines")
	}
	c, err := claimsOf(token)
	switch {
	case err != nil:
		return Result{}, api.Errorf(api.KindUnauthenticated, "the ID token of %s cannot be read: %w", p.cfg.Issuer, err)
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.Nonce)) != 1:
		return Result{}, api.Errorf(api.KindUnauthenticated, "the ID token of %s is not for this sign-in (its nonce is another one)", p.cfg.Issuer).WithHint("sign in again")
	case len(token.Audience) > 1 && c.Party == "", c.Party != "" && c.Party != p.cfg.ClientID:
		return Result{}, api.Errorf(api.KindUnauthenticated, "the ID token of %s is for the client %.100q", p.cfg.Issuer, c.Party).WithHint("the administrator checks oidc.client-id")
	case token.Subject == "":
		return Result{}, api.Errorf(api.KindUnauthenticated, "the ID token of %s has no subject", p.cfg.Issuer)
	}
	out := Result{Person: api.Person{Issuer: p.cfg.Issuer, Subject: token.Subject, Email: c.Email}}
	out.Account, out.Role, out.Denied = p.grant(c)
	return out, nil
}

func notBegun() error {
	return api.Errorf(api.KindUnauthenticated, "this sign-in did not begin in this browser, was used, or took more than %d minutes", int(Life.Minutes())).
		WithHint("sign in again, in one tab of one browser")
}

// begun returns the sign-in that an answer is for. There is one answer.
func (p *Provider) begun(ctx context.Context, in Answer) (attempt, error) {
	a, ok := p.seal.open(in.Cookie)
	if !ok || !p.cfg.Now().Before(a.Ends) || in.State == "" || in.Code == "" || len(in.Code) > maxCode ||
		subtle.ConstantTimeCompare([]byte(in.State), []byte(a.State)) != 1 || subtle.ConstantTimeCompare([]byte(hash(in.Page)), []byte(a.Page)) != 1 {
		return attempt{}, notBegun()
	}
	if in.Issuer != "" && in.Issuer != p.cfg.Issuer {
		return attempt{}, api.Errorf(api.KindUnauthenticated, "the answer is of %.200q, and not of %s", in.Issuer, p.cfg.Issuer).WithHint("the administrator checks oidc.issuer")
	}
	first, err := p.cfg.Use(ctx, a.State, a.Ends)
	if err == nil && !first {
		err = notBegun()
	}
	return a, err
}

// exchange gives the provider a code for an ID token.
func (p *Provider) exchange(ctx context.Context, found *oidc.Provider, code, verifier string) (string, error) {
	secret := ""
	if p.cfg.Secret != nil {
		var err error
		if secret, err = p.cfg.Secret(ctx, found.Endpoint().TokenURL); err != nil {
			return "", api.Errorf(api.KindUnavailable, "the secret of the client is not available: %w", err).
				WithHint("the administrator stores it with hortus secret set NAME --daemon and sets oidc.secret to NAME")
		}
	}
	token, err := p.oauth(found, secret).Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", api.Errorf(api.KindUnauthenticated, "%s does not accept the sign-in: %s", p.cfg.Issuer, refusal(err)).
			WithHint("sign in again; if it fails again, the administrator checks oidc.client-id and oidc.secret, and that the client's redirect URI is %s", p.PublicURL()+CallbackPath)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return "", api.Errorf(api.KindUnauthenticated, "%s sent no ID token", p.cfg.Issuer).WithHint("the administrator allows the client the scope openid")
	}
	return raw, nil
}
