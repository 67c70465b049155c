package preview

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
)

const (
	// ticketLife is how long a ticket can be used, and cookieLife how long the cookie is valid that it is exchanged for.
	ticketLife = 10 * time.Minute
	cookieLife = 12 * time.Hour
	// maxTickets bounds the tickets of an account that were not used yet. The oldest makes way for a new one.
	maxTickets = 256
	// ticketParam is the parameter with a ticket.
	ticketParam = "hortus-ticket"
	// cookieName is the name of the cookie over HTTP on this machine. Over HTTPS it has the prefix with which browsers
	// accept it from this host alone: no page of a name below the same domain can set it.
	cookieName   = "hortus-preview"
	securePrefix = "__Host-"
)

// Tokens makes and checks the values of cookies. The check takes the same time whatever was shown.
type Tokens interface {
	Preview(text string) string
	CheckPreview(text, got string) bool
}

// Config says where ports are.
type Config struct {
	// Scheme is "https" or "http", Domain the name below which ports are, with a port if it is not that of the scheme.
	Scheme, Domain string
	Tokens         Tokens
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Previews makes links to ports, and checks the cookies of private ones.
type Previews struct {
	cfg Config

	mu      sync.Mutex
	tickets map[string][]ticket // of an account, the oldest first
}

type ticket struct {
	secret string
	id     api.SandboxID
	port   int
	ends   time.Time
}

// New makes previews.
func New(cfg Config) *Previews {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Previews{cfg: cfg, tickets: map[string][]ticket{}}
}

// Address returns the scheme and the domain of ports: of a configured domain or, without one, of the URL of a daemon, whose
// names below localhost browsers on its machine resolve. The error says what to configure.
func Address(domain, daemon string) (scheme, host string, err error) {
	u, err := url.Parse(daemon)
	switch {
	case err != nil || u.Host == "":
		return "", "", api.Errorf(api.KindUnsupported, "ports have no addresses: this daemon does not serve HTTP").
			WithHint("run hortus serve, or forward the port: hortus sandbox forward ID PORT")
	case domain == "" && u.Scheme == "https":
		return "", "", api.Errorf(api.KindUnsupported, "ports have no addresses: serve.domain is not set").
			WithHint("start the daemon with hortus serve --domain DOMAIN, whose subdomains lead to it, and a certificate for *.DOMAIN; or forward the port: hortus sandbox forward ID PORT")
	case domain == "":
		return "http", "localhost:" + u.Port(), nil
	case u.Scheme == "http" && local(domain):
		return "http", domain, nil
	}
	return "https", domain, nil // the daemon's own TLS, or that of a proxy in front of it
}

// local reports whether browsers resolve a domain to their own machine.
func local(domain string) bool {
	host, _, _ := strings.Cut(domain, ":")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Link returns the address of a port. That of a private port has a ticket.
func (p *Previews) Link(s api.Sandbox, port int) (api.PortURL, error) {
	u := url.URL{Scheme: p.cfg.Scheme, Host: fmt.Sprintf("%d-%s.%s", port, s.ID, p.cfg.Domain), Path: "/"}
	if !s.PrivateTraffic {
		return api.PortURL{URL: u.String()}, nil
	}
	now := p.cfg.Now()
	t := ticket{secret: rand.Text() + rand.Text(), id: s.ID, port: port, ends: now.Add(ticketLife)}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.tickets[s.Account]
	for len(all) > 0 && (len(all) >= maxTickets || !all[0].ends.After(now)) {
		all = all[1:]
	}
	p.tickets[s.Account] = append(all, t)
	u.RawQuery = ticketParam + "=" + t.secret
	return api.PortURL{URL: u.String(), Private: true, ExpiresAt: t.ends}, nil
}

// HasTicket reports whether a request shows a ticket.
func HasTicket(r *http.Request) bool { return r.URL.Query().Has(ticketParam) }

// Open uses up the ticket of a WebSocket of a program, and removes it from the request. It reports whether the ticket was
// valid. Pages, which send an origin, exchange theirs for a cookie.
func (p *Previews) Open(r *http.Request, s api.Sandbox, port int) bool {
	q := r.URL.Query()
	shown := q[ticketParam]
	if r.Method != http.MethodGet || len(shown) != 1 || len(r.Header.Values("Origin")) > 0 || !s.PrivateTraffic || !p.take(s, port, shown[0]) {
		return false
	}
	q.Del(ticketParam)
	r.URL.RawQuery = q.Encode()
	return true
}

// Redeem exchanges the ticket of a request for a cookie, and leads the browser to the address without it. It reports
// whether the ticket was valid; if not, it has answered nothing. Requests of programs that look at links beforehand are
// not of a browser and use up no ticket.
func (p *Previews) Redeem(w http.ResponseWriter, r *http.Request, s api.Sandbox, port int) bool {
	q := r.URL.Query()
	if shown := q[ticketParam]; r.Method != http.MethodGet || !Browser(r) || len(shown) != 1 || s.PrivateTraffic && !p.take(s, port, shown[0]) {
		return false
	}
	q.Del(ticketParam)
	to := url.URL{Scheme: p.cfg.Scheme, Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: q.Encode()}
	if s.PrivateTraffic {
		until := strconv.FormatInt(p.cfg.Now().Add(cookieLife).Unix(), 10)
		http.SetCookie(w, &http.Cookie{
			Name: p.cookie(), Value: until + "." + p.cfg.Tokens.Preview(text(s.ID, port, until)), Path: "/", MaxAge: int(cookieLife.Seconds()),
			Secure: p.cfg.Scheme == "https", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	w.Header().Set("Location", to.String())
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
	return true
}

// take removes a ticket and reports whether it was there.
func (p *Previews) take(s api.Sandbox, port int, shown string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.tickets[s.Account]
	for i, t := range all {
		if subtle.ConstantTimeCompare([]byte(t.secret), []byte(shown)) != 1 {
			continue
		}
		if p.tickets[s.Account] = append(all[:i:i], all[i+1:]...); len(all) == 1 {
			delete(p.tickets, s.Account)
		}
		return t.id == s.ID && t.port == port && t.ends.After(p.cfg.Now())
	}
	return false
}

func (p *Previews) cookie() string {
	if p.cfg.Scheme == "https" {
		return securePrefix + cookieName
	}
	return cookieName
}

// text is what the value of a cookie proves.
func text(id api.SandboxID, port int, until string) string {
	return string(id) + ":" + strconv.Itoa(port) + ":" + until
}

// Allows reports whether a request has the cookie of a private port, and is not one that a page of another name makes with it:
// pages of other sandboxes are of the same site to a browser, which sends the cookie with their requests too.
func (p *Previews) Allows(r *http.Request, id api.SandboxID, port int) bool {
	return !foreign(r) && p.cookieOf(r, id, port)
}

func (p *Previews) cookieOf(r *http.Request, id api.SandboxID, port int) bool {
	for _, c := range r.CookiesNamed(p.cookie()) {
		until, value, _ := strings.Cut(c.Value, ".")
		at, err := strconv.ParseInt(until, 10, 64)
		if err == nil && p.cfg.Now().Unix() < at && p.cfg.Tokens.CheckPreview(text(id, port, until), value) {
			return true
		}
	}
	return false
}

// foreign reports whether a browser makes a request for a page of another name. To follow a link is none.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-site", "cross-site":
		return r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

// Strip removes the cookies of this package from the headers of a request to a program.
func Strip(h http.Header) {
	values, found := h["Cookie"]
	if !found {
		return
	}
	var kept []string
	for _, v := range values {
		var pairs []string
		for pair := range strings.SplitSeq(v, ";") {
			name, _, _ := strings.Cut(pair, "=")
			if name = strings.TrimSpace(name); name != cookieName && name != securePrefix+cookieName {
				pairs = append(pairs, pair)
			}
		}
		if rest := strings.TrimSpace(strings.Join(pairs, ";")); rest != "" {
			kept = append(kept, rest)
		}
	}
	if h["Cookie"] = kept; len(kept) == 0 {
		delete(h, "Cookie")
	}
}
