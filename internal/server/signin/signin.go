package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/body"
	"hortus.dev/internal/server/openid"
	"hortus.dev/internal/store"
)

const (
	// Path is where browsers sign in and out.
	Path = "/console/session"
	// Header has the part of a session's secret that the page keeps.
	Header = "X-Hortus-Page"

	// idle is the maximum time between two requests of a session, and life its maximum age.
	idle = 12 * time.Hour
	life = 7 * 24 * time.Hour
	// noteEvery is the minimum time between two notes of the last request.
	noteEvery = time.Minute
	// maxSessions is the maximum number of sessions of one key. The oldest ends when there is one more.
	maxSessions = 64
	ticketLife  = time.Minute
	// maxTickets is the maximum number of tickets that were not used yet.
	maxTickets = 64

	cookieName = "hortus-session"
	// securePrefix makes browsers accept a cookie over HTTPS only, and send it to this host alone.
	securePrefix = "__Host-"
	maxBody      = 16 << 10
)

// Rows are where sessions are kept; a store.Store is one.
type Rows interface {
	InsertSignIn(ctx context.Context, s store.SignIn, createdAfter, usedAfter time.Time, most int) error
	SignIn(ctx context.Context, hash string) (store.SignIn, error)
	UseSignIn(ctx context.Context, hash string, at time.Time) error
	RemoveSignIn(ctx context.Context, hash string) error
}

// Config is what sessions need. All fields but PublicURL, OpenID, People and Now are required.
type Config struct {
	Rows Rows
	// Verify returns the principal of an API key, and Principal that of the ID of a key. Both count the request.
	Verify    func(ctx context.Context, presented string) (api.Principal, error)
	Principal func(ctx context.Context, id api.KeyID) (api.Principal, error)
	// PublicURL is where browsers on other machines reach the daemon; empty means that there is none.
	PublicURL string
	// OpenID signs in people, with the keys of People; nil if no provider is configured.
	OpenID *openid.Provider
	People People
	// Loopback is true if only this machine reaches the listener, or a proxy on it.
	Loopback bool
	// Fail writes an error.
	Fail func(w http.ResponseWriter, err error)
	Now  func() time.Time
}

// Sessions are the browsers that are signed in.
type Sessions struct {
	cfg    Config
	public *url.URL

	mu      sync.Mutex
	tickets map[string]ticket // by hash
}

type ticket struct {
	key  api.KeyID
	ends time.Time
}

// New makes sessions.
func New(cfg Config) *Sessions {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	public, err := url.Parse(cfg.PublicURL)
	if err != nil {
		public = &url.URL{}
	}
	return &Sessions{cfg: cfg, public: public, tickets: map[string]ticket{}}
}

// Ticket returns a text that signs in a browser with a key, once.
func (s *Sessions) Ticket(key api.KeyID) (secret string, ends time.Time) {
	now := s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, t := range s.tickets {
		if !now.Before(t.ends) || len(s.tickets) >= maxTickets {
			delete(s.tickets, h)
		}
	}
	secret, ends = rand.Text()+rand.Text(), now.Add(ticketLife)
	s.tickets[hash(secret)] = ticket{key, ends}
	return secret, ends
}

// redeem takes a ticket.
func (s *Sessions) redeem(secret string) (api.KeyID, bool) {
	h := hash(secret)
	s.mu.Lock()
	defer s.mu.Unlock()
	t, found := s.tickets[h]
	delete(s.tickets, h)
	return t.key, found && s.cfg.Now().Before(t.ends)
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Session is what a page learns about itself.
type Session struct {
	Account string    `json:"account"`
	Role    api.Role  `json:"role"`
	Key     api.KeyID `json:"key"`
	// ExpiresAt is the latest end.
	ExpiresAt time.Time `json:"expiresAt"`
	// Page is the text that the page keeps and sends as Header. It is in the answer to a sign-in only.
	Page string `json:"page,omitempty"`
}

// ServeHTTP serves Path.
func (s *Sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head(w)
	err := s.checkPage(r)
	if err == nil {
		switch r.Method {
		case http.MethodPost:
			err = s.signIn(w, r)
		case http.MethodGet:
			err = s.show(w, r)
		case http.MethodDelete:
			err = s.signOut(w, r)
		default:
			w.Header().Set("Allow", "GET, POST, DELETE")
			err = api.Errorf(api.KindInvalid, "%s does not accept %.20s", Path, r.Method)
		}
	}
	if err != nil {
		s.cfg.Fail(w, err)
	}
}

// head sets what all answers have.
func head(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// signInRequest has one of an API key, a ticket, and the answer of a provider of OpenID Connect.
type signInRequest struct {
	Key    string        `json:"key,omitempty"`
	Ticket string        `json:"ticket,omitempty"`
	OpenID *openIDAnswer `json:"oidc,omitempty"`
}

// ways returns the number of the ways that a request has.
func (r signInRequest) ways() (n int) {
	for _, has := range []bool{r.Key != "", r.Ticket != "", r.OpenID != nil} {
		if has {
			n++
		}
	}
	return n
}

func (s *Sessions) signIn(w http.ResponseWriter, r *http.Request) error {
	var in signInRequest
	if err := (body.Form{Max: maxBody}).Decode(w, r, &in); err != nil {
		return err
	}
	var p api.Principal
	var err error
	switch key, ok := s.redeem(in.Ticket); {
	case in.ways() != 1:
		return api.Errorf(api.KindInvalid, "a sign-in needs an API key, a ticket, or the answer of a provider of OpenID Connect")
	case in.OpenID != nil:
		if key, err = s.finish(w, r, *in.OpenID); err == nil {
			p, err = s.cfg.Principal(r.Context(), key)
		}
	case in.Key != "":
		p, err = s.cfg.Verify(r.Context(), strings.TrimSpace(in.Key))
	case ok:
		p, err = s.cfg.Principal(r.Context(), key)
	default:
		err = api.Errorf(api.KindUnauthenticated, "this link was used, or has expired").WithHint("run hortus ui again, or sign in with an API key")
	}
	if err != nil {
		return err
	}
	now := s.cfg.Now().UTC()
	cookie, page := rand.Text()+rand.Text(), rand.Text()+rand.Text()
	row := store.SignIn{Hash: hash(cookie + "." + page), Key: p.Key, CreatedAt: now, UsedAt: now}
	if err := s.cfg.Rows.InsertSignIn(r.Context(), row, now.Add(-life), now.Add(-idle), maxSessions); err != nil {
		return err
	}
	http.SetCookie(w, s.cookie(r, cookieName, cookie, int(life.Seconds())))
	return answer(w, Session{Account: p.Account, Role: p.Role, Key: p.Key, ExpiresAt: latest(now, p), Page: page})
}

func (s *Sessions) show(w http.ResponseWriter, r *http.Request) error {
	row, p, err := s.session(r.Context(), s.secretOf(r))
	if err != nil {
		return err
	}
	return answer(w, Session{Account: p.Account, Role: p.Role, Key: p.Key, ExpiresAt: latest(row.CreatedAt, p)})
}

// latest is the latest end of a session that began with the key of a principal.
func latest(began time.Time, p api.Principal) time.Time {
	ends := began.Add(life)
	if !p.ExpiresAt.IsZero() && p.ExpiresAt.Before(ends) {
		return p.ExpiresAt
	}
	return ends
}

// signOut ends the session of a request. One that has ended already is no error.
func (s *Sessions) signOut(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, s.cookie(r, cookieName, "", -1))
	if err := s.cfg.Rows.RemoveSignIn(r.Context(), hash(s.secretOf(r))); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func answer(w http.ResponseWriter, v Session) error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone
	return nil
}

// session returns the session with a secret, and the principal of its key.
func (s *Sessions) session(ctx context.Context, secret string) (row store.SignIn, p api.Principal, err error) {
	now, h := s.cfg.Now(), hash(secret)
	row, err = s.cfg.Rows.SignIn(ctx, h)
	switch {
	case api.KindOf(err) == api.KindNotFound:
		return row, p, ended()
	case err != nil:
		return row, p, err
	case !now.Before(row.CreatedAt.Add(life)), !now.Before(row.UsedAt.Add(idle)):
		return row, p, ended()
	}
	p, err = s.cfg.Principal(ctx, row.Key)
	if api.KindOf(err) == api.KindUnauthenticated {
		return row, p, ended()
	}
	if err == nil && now.Sub(row.UsedAt) >= noteEvery {
		err = s.cfg.Rows.UseSignIn(ctx, h, now.UTC())
	}
	return row, p, err
}

func ended() error {
	return api.Errorf(api.KindUnauthenticated, "this session has ended").WithHint("sign in again with an API key, or run hortus ui")
}

// Take removes the secret of a session from a request, so that nothing behind the server sees it. It returns what authenticates
// the request by it, nil if the request has none. Call that before the request is served.
func (s *Sessions) Take(r *http.Request) func(context.Context) (api.Principal, error) {
	secret, page := s.secretOf(r), r.Header.Get(Header) != ""
	strip(r.Header)
	if strings.HasPrefix(secret, ".") || !page {
		return nil
	}
	return func(ctx context.Context) (api.Principal, error) {
		if err := s.checkPage(r); err != nil {
			return api.Principal{}, err
		}
		_, p, err := s.session(ctx, secret)
		return p, err
	}
}

// secretOf returns both parts of the secret of a request.
func (s *Sessions) secretOf(r *http.Request) string {
	return s.cookieOf(r, cookieName) + "." + r.Header.Get(Header)
}

// cookieOf returns the value of a cookie; empty if the request has none, or several.
func (s *Sessions) cookieOf(r *http.Request, name string) string {
	if all := r.CookiesNamed(s.fullName(r, name)); len(all) == 1 {
		return all[0].Value
	}
	return ""
}

// strip removes what is a session's from headers.
func strip(h http.Header) {
	h.Del(Header)
	values, found := h["Cookie"]
	if !found {
		return
	}
	var kept []string
	for _, v := range values {
		var pairs []string
		for pair := range strings.SplitSeq(v, ";") {
			name, _, _ := strings.Cut(pair, "=")
			switch name = strings.TrimPrefix(strings.TrimSpace(name), securePrefix); name {
			case cookieName, openIDCookie:
			default:
				pairs = append(pairs, strings.TrimSpace(pair))
			}
		}
		if rest := strings.Join(pairs, "; "); rest != "" {
			kept = append(kept, rest)
		}
	}
	if h["Cookie"] = kept; len(kept) == 0 {
		delete(h, "Cookie")
	}
}

// secure reports whether the browser's connection is encrypted, by this daemon or by the proxy of the public URL.
func (s *Sessions) secure(r *http.Request) bool {
	return r.TLS != nil || s.public.Scheme == "https" && strings.EqualFold(r.Host, s.public.Host)
}

// fullName returns the name that a cookie has over the connection of a request.
func (s *Sessions) fullName(r *http.Request, name string) string {
	if s.secure(r) {
		return securePrefix + name
	}
	return name
}

func (s *Sessions) cookie(r *http.Request, name, value string, age int) *http.Cookie {
	return &http.Cookie{Name: s.fullName(r, name), Value: value, Path: "/", MaxAge: age, Secure: s.secure(r), HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

// CheckHost refuses a name that an attacker may have made resolve to this machine.
func (s *Sessions) CheckHost(r *http.Request) error {
	if !s.cfg.Loopback || strings.EqualFold(r.Host, s.public.Host) {
		return nil
	}
	u, err := url.Parse("//" + r.Host)
	if err == nil {
		name := u.Hostname()
		if _, err = netip.ParseAddr(name); err == nil || strings.EqualFold(name, "localhost") {
			return nil
		}
	}
	return api.Errorf(api.KindDenied, "the console is not available under the name %.100q", r.Host).
		WithHint("use the address that hortus serve prints; behind a proxy, start it with --public-url URL")
}

// checkPage refuses what is not a request of the console's page.
func (s *Sessions) checkPage(r *http.Request) error {
	if err := s.CheckHost(r); err != nil {
		return err
	}
	return s.checkOrigin(r)
}

// checkOrigin refuses a request that a browser does not make for a page of the own origin.
func (s *Sessions) checkOrigin(r *http.Request) error {
	scheme := "http"
	if s.secure(r) {
		scheme = "https"
	}
	origin, site := r.Header.Values("Origin"), r.Header.Get("Sec-Fetch-Site")
	safe := (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Upgrade") == ""
	switch {
	case len(origin) == 0 && !safe,
		len(origin) > 0 && (len(origin) > 1 || !strings.EqualFold(origin[0], scheme+"://"+r.Host)),
		site != "" && site != "same-origin":
		return api.Errorf(api.KindDenied, "this request is not one of the console's own page (Origin %.100q)", strings.Join(origin, ", ")).
			WithHint("open the console itself; behind a proxy, start the daemon with --public-url URL; programs use an API key")
	}
	return nil
}
