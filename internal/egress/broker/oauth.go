package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/internal/egress/policy"
)

const (
	// tokenTimeout is the maximum time of a request for a token, tokenLifetime the lifetime of
	// a token whose server says none, and tokenMargin how long before its end a token is no
	// longer used, at most a tenth of its lifetime.
	tokenTimeout  = 30 * time.Second
	tokenLifetime = 5 * time.Minute
	tokenMargin   = time.Minute
	// maxTokens is the maximum number of secrets whose tokens are kept; all are fetched again
	// when there are more.
	maxTokens = 10_000
	// maxTokenAnswer is the maximum size of the answer of such a server, in bytes.
	maxTokenAnswer = 256 << 10
)

// refresher is the value of a secret with the signer SecretOAuth.
type refresher struct {
	TokenURL     string `json:"tokenUrl"`
	RefreshToken string `json:"refreshToken"`
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	Scope        string `json:"scope"`
}

type tokenKey struct{ account, name string }

// token is the access token of a secret.
type token struct {
	busy    chan struct{} // has an element while a request uses the rest
	source  refresher     // the value that it is from
	refresh string        // the refresh token that is valid
	access  string
	expires time.Time
}

// tokens are the access tokens of all secrets.
type tokens struct {
	cfg Config
	tls *tls.Config

	mu   sync.Mutex
	open map[tokenKey]*token
}

// errCeiling is the error for a server of tokens that the sandbox could not reach itself.
var errCeiling = errors.New("the ceiling of the key does not allow the server of its OAuth tokens")

// within reports whether a ceiling allows a request for a token.
func within(ceiling *policy.Policy, u *url.URL) bool {
	if ceiling == nil {
		return true
	}
	port, err := strconv.Atoi(cmp.Or(u.Port(), "443"))
	if err != nil {
		return false
	}
	t, err := policy.NewTarget(u.Hostname(), port)
	return err == nil && ceiling.Request(t, http.MethodPost, cmp.Or(u.EscapedPath(), "/")).Allow
}

// get returns an access token for a sandbox. Requests of the same secret wait for one refresh.
func (ts *tokens) get(ctx context.Context, by Owner, name, value string) (material, error) {
	account := by.Account
	var v refresher
	if json.Unmarshal([]byte(value), &v) != nil || v.RefreshToken == "" || v.ClientID == "" {
		return material{}, errors.New("it is not a JSON object with tokenUrl, refreshToken and clientId")
	}
	u, err := url.Parse(v.TokenURL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil:
		return material{}, errors.New("its tokenUrl is not an https URL")
	case !within(by.Ceiling, u):
		return material{}, errCeiling
	case ts.cfg.Dial == nil:
		return material{}, errors.New("the daemon cannot connect to servers of OAuth tokens")
	}
	k := tokenKey{account, name}
	ts.mu.Lock()
	t := ts.open[k]
	if t == nil {
		if len(ts.open) >= maxTokens {
			clear(ts.open)
		}
		t = &token{busy: make(chan struct{}, 1)}
		ts.open[k] = t
	}
	ts.mu.Unlock()
	select {
	case t.busy <- struct{}{}:
		defer func() { <-t.busy }()
	case <-ctx.Done():
		return material{}, ctx.Err()
	}
	t.adopt(v)
	if t.access == "" || !ts.cfg.Now().Before(t.expires) {
		// A client that leaves must not lose a refresh token that was replaced.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTimeout)
		defer cancel()
		if err := ts.renew(rctx, t, v); err != nil {
			return material{}, err
		}
		if t.refresh != v.RefreshToken && ts.cfg.Rotated != nil {
			ts.cfg.Rotated(account, name, v.RefreshToken, t.refresh)
		}
	}
	m := material{send: t.access, hide: []string{t.access, t.refresh, v.RefreshToken}}
	if v.ClientSecret != "" {
		m.hide = append(m.hide, v.ClientSecret)
	}
	return m, nil
}

// adopt notes the value of the secret. Tokens of another value are dropped, unless it is the same
// with the refresh token that replaced its own.
func (t *token) adopt(v refresher) {
	same := t.source
	same.RefreshToken = v.RefreshToken
	if t.source != v && (same != v || v.RefreshToken != t.refresh) {
		t.refresh, t.access = v.RefreshToken, ""
	}
	t.source = v
}

// renew fetches an access token.
func (ts *tokens) renew(ctx context.Context, t *token, v refresher) error {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.refresh}, "client_id": {v.ClientID}}
	if v.ClientSecret != "" {
		form.Set("client_secret", v.ClientSecret)
	}
	if v.Scope != "" {
		form.Set("scope", v.Scope)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, v.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return errors.New("its tokenUrl is not valid")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	// One connection for one request: tokens are fetched rarely. Redirects are not followed.
	transport := &http.Transport{
		DialContext: ts.cfg.Dial, TLSClientConfig: ts.tls.Clone(), TLSHandshakeTimeout: tokenTimeout,
		DisableKeepAlives: true, MaxResponseHeaderBytes: maxTokenAnswer,
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("the server of OAuth tokens cannot be reached: %w", err)
	}
	defer resp.Body.Close()
	var answer struct {
		Access  string  `json:"access_token"`
		Type    string  `json:"token_type"`
		Expires float64 `json:"expires_in"`
		Refresh string  `json:"refresh_token"`
		Error   string  `json:"error"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, maxTokenAnswer)).Decode(&answer)
	switch {
	case resp.StatusCode != http.StatusOK && err == nil && slices.Contains(tokenErrors, answer.Error):
		return fmt.Errorf("the server of OAuth tokens answered with status %d: %s", resp.StatusCode, answer.Error)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the server of OAuth tokens answered with status %d", resp.StatusCode)
	case err != nil || answer.Access == "":
		return errors.New("the answer of the server of OAuth tokens has no token")
	case answer.Type != "" && !strings.EqualFold(answer.Type, "bearer"):
		return errors.New("the server of OAuth tokens gave a token that is not a bearer token")
	}
	lifetime := tokenLifetime
	if answer.Expires > 0 && answer.Expires < 1e9 {
		lifetime = time.Duration(answer.Expires * float64(time.Second))
	}
	t.access, t.expires = answer.Access, ts.cfg.Now().Add(lifetime-min(tokenMargin, lifetime/10))
	if answer.Refresh != "" {
		t.refresh = answer.Refresh
	}
	return nil
}

// tokenErrors are the errors of RFC 6749, section 5.2. Other text of the server is not logged:
// it could have the token.
var tokenErrors = []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}
