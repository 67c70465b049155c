package oauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
)

// Config is what a server is made from.
type Config struct {
	// URL is where clients and people reach the daemon, such as https://hortus.example.org. The resource is /mcp below it.
	URL string
	// Secret seals what is issued. Servers with the same one, and the same Use, accept what the others issued.
	Secret []byte
	// Use notes that a code was used, for as long as it works; false if it was used before.
	Use func(ctx context.Context, id string, ends time.Time) (bool, error)
	// Verify returns the principal of an API key, and counts the request.
	Verify func(ctx context.Context, key string) (api.Principal, error)
	// Dial connects to a host with a public address, and refuses every other one.
	Dial func(ctx context.Context, host string, port int) (net.Conn, error)
	// Roots are the authorities of clients' metadata; nil for those of the host.
	Roots *x509.CertPool
	// Now is the clock; nil for the real one.
	Now func() time.Time
}

// How long what is issued works.
const (
	requestLife = 10 * time.Minute
	codeLife    = time.Minute
	accessLife  = time.Hour
	// refreshLife begins with the consent: after it a person must consent again.
	refreshLife = 30 * 24 * time.Hour
)

// Bounds of requests.
const (
	maxForm    = 64 << 10
	bodyTime   = 10 * time.Second
	maxState   = 2 << 10
	maxFetches = 8
)

// Paths of the server.
const (
	pathResource  = "/.well-known/oauth-protected-resource"
	pathServer    = "/.well-known/oauth-authorization-server"
	pathAuthorize = "/oauth/authorize"
	pathToken     = "/oauth/token"
	pathRegister  = "/oauth/register"
	pathMCP       = "/mcp"
)

// Server is an authorization server.
type Server struct {
	cfg Config
	sealer
	fetches chan struct{}
	same    *http.CrossOriginProtection
	mux     *http.ServeMux
}

// New creates a server.
func New(cfg Config) (*Server, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) || cfg.URL != u.Scheme+"://"+u.Host || strings.ToLower(cfg.URL) != cfg.URL {
		return nil, api.Errorf(api.KindInvalid, "%.100q is not the URL of a daemon", cfg.URL).
			WithHint("write https and the host in lower case, without a path: https://hortus.example.org; http is possible for localhost only")
	}
	s := &Server{cfg: cfg, fetches: make(chan struct{}, maxFetches), same: http.NewCrossOriginProtection()}
	if s.sealer, err = newSealer(cfg.Secret); err != nil {
		return nil, err
	}
	if err := s.same.AddTrustedOrigin(cfg.URL); err != nil { // a proxy may send another Host
		return nil, err
	}
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET "+pathResource, s.resource)
	s.mux.HandleFunc("GET "+pathResource+pathMCP, s.resource)
	s.mux.HandleFunc("GET "+pathServer, s.metadata)
	s.mux.HandleFunc("GET "+pathAuthorize, s.authorize)
	s.mux.HandleFunc("POST "+pathAuthorize, s.consent)
	s.mux.HandleFunc("POST "+pathToken, s.token)
	s.mux.HandleFunc("POST "+pathRegister, s.register)
	return s, nil
}

func (s *Server) now() time.Time {
	if s.cfg.Now != nil {
		return s.cfg.Now()
	}
	return time.Now()
}

// Takes reports whether a request is for the server.
func (s *Server) Takes(r *http.Request) bool {
	switch r.URL.Path {
	case pathResource, pathResource + pathMCP, pathServer, pathAuthorize, pathToken, pathRegister:
		return true
	}
	return false
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // where the connection has one
	s.mux.ServeHTTP(w, r)
}

// Challenge is the value of WWW-Authenticate that leads a client to the metadata; "" if there is no server.
func (s *Server) Challenge() string {
	if s == nil {
		return ""
	}
	return `Bearer resource_metadata="` + s.cfg.URL + pathResource + pathMCP + `"`
}

// Resource is the URL for which tokens are.
func (s *Server) Resource() string { return s.cfg.URL + pathMCP }

func (s *Server) resource(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"resource": s.Resource(), "authorization_servers": []string{s.cfg.URL}, "bearer_methods_supported": []string{"header"}, "resource_name": "Hortus",
	})
}

func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer": s.cfg.URL, "authorization_endpoint": s.cfg.URL + pathAuthorize, "token_endpoint": s.cfg.URL + pathToken, "registration_endpoint": s.cfg.URL + pathRegister,
		"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		"client_id_metadata_document_supported": true, "authorization_response_iss_parameter_supported": true,
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

// fail answers with an error of OAuth.
func fail(w http.ResponseWriter, status int, code, description string) {
	answer(w, status, map[string]string{"error": code, "error_description": description})
}

// register registers a client: its registration is its identifier.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var c client
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		fail(w, http.StatusBadRequest, "invalid_client_metadata", "the body is not a JSON object of metadata")
		return
	}
	if err := c.check(); err != nil {
		fail(w, http.StatusBadRequest, "invalid_redirect_uri", err.Error())
		return
	}
	id, err := s.seal(kindClient, time.Time{}, c)
	if err != nil || len(id) > maxSealed {
		fail(w, http.StatusBadRequest, "invalid_client_metadata", "the metadata is too large")
		return
	}
	answer(w, http.StatusCreated, map[string]any{
		"client_id": id, "client_name": c.Name, "redirect_uris": c.Redirects, "token_endpoint_auth_method": "none",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	})
}

// request is a request of a client that waits for the consent of a person. Client is the hash of its identifier, which can be long;
// Metadata is the URL of its metadata, if it has one.
type request struct {
	Client, Name, Metadata, Redirect, State, Challenge string
}

// hashOf is the hash of a client's identifier.
func hashOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// authorize checks a request and shows the page of consent. What is wrong with the client or the redirect URI is shown to the person:
// nothing may be sent to an address that the client does not list.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	for name, values := range q {
		if len(values) > 1 {
			err = api.Errorf(api.KindInvalid, "the parameter %.40q is given twice", name)
		}
	}
	var c client
	if err == nil {
		c, err = s.client(r.Context(), q.Get("client_id"))
	}
	a := request{Client: hashOf(q.Get("client_id")), Name: c.Name, Redirect: q.Get("redirect_uri"), State: q.Get("state"), Challenge: q.Get("code_challenge")}
	if !strings.HasPrefix(q.Get("client_id"), kindClient) {
		a.Metadata = q.Get("client_id")
	}
	switch {
	case err != nil:
	case !c.has(a.Redirect):
		err = api.Errorf(api.KindInvalid, "the redirect URI %.100q is not one of this client", a.Redirect)
	case len(a.State) > maxState:
		err = api.Errorf(api.KindInvalid, "the state is too long")
	}
	if err != nil {
		page(w, http.StatusBadRequest, "'self'", view{Error: err.Error()})
		return
	}
	switch resource := q.Get("resource"); {
	case q.Get("response_type") != "code":
		s.back(w, r, a, url.Values{"error": {"unsupported_response_type"}})
	case q.Get("code_challenge_method") != "S256" || len(a.Challenge) != 43:
		s.back(w, r, a, url.Values{"error": {"invalid_request"}, "error_description": {"PKCE with S256 is required"}})
	case resource != "" && resource != s.Resource():
		s.back(w, r, a, url.Values{"error": {"invalid_target"}})
	default:
		s.ask(w, http.StatusOK, a, "")
	}
}

// back sends the person's browser to the client.
func (s *Server) back(w http.ResponseWriter, r *http.Request, a request, more url.Values) {
	u, err := redirectOf(a.Redirect)
	if err != nil {
		page(w, http.StatusBadRequest, "'self'", view{Error: err.Error()})
		return
	}
	q := u.Query()
	for name, values := range more {
		q[name] = values
	}
	if q.Set("iss", s.cfg.URL); a.State != "" {
		q.Set("state", a.State)
	}
	u.RawQuery = q.Encode()
	http.Redirect(w, r, u.String(), http.StatusSeeOther)
}

// ask shows the page of consent.
func (s *Server) ask(w http.ResponseWriter, status int, a request, wrong string) {
	sealed, err := s.seal(kindRequest, s.now().Add(requestLife), a)
	u, uerr := redirectOf(a.Redirect)
	if err = cmp.Or(err, uerr); err != nil {
		page(w, http.StatusBadRequest, "'self'", view{Error: err.Error()})
		return
	}
	v := view{Name: cmp.Or(a.Name, "A client without a name"), To: u.Host, Metadata: a.Metadata, Resource: s.Resource(), Request: sealed, Wrong: wrong}
	// Browsers apply form-action to the redirect that answers the form, too.
	page(w, status, "'self' "+u.Scheme+"://"+u.Host, v)
}

// consent is the answer of a person: an API key, and yes or no.
func (s *Server) consent(w http.ResponseWriter, r *http.Request) {
	if err := s.same.Check(r); err != nil {
		page(w, http.StatusForbidden, "'self'", view{Error: "The answer comes from a page of another origin."})
		return
	}
	var a request
	if !form(r) || s.open(kindRequest, r.PostForm.Get("request"), s.now(), &a) != nil {
		page(w, http.StatusBadRequest, "'self'", view{Error: "This page has ended. Begin again at the client."})
		return
	}
	if r.PostForm.Get("decision") != "allow" {
		s.back(w, r, a, url.Values{"error": {"access_denied"}})
		return
	}
	key := strings.TrimSpace(r.PostForm.Get("key"))
	p, err := s.cfg.Verify(r.Context(), key)
	switch {
	case err != nil:
		s.ask(w, http.StatusForbidden, a, err.Error())
		return
	case p.Role != api.RoleUser:
		s.ask(w, http.StatusForbidden, a, "this is an admin's key: use one of a user, which hortus key create --account NAME creates")
		return
	}
	code, err := s.seal(kindCode, s.now().Add(codeLife), code{rand.Text(), key, a.Client, a.Redirect, a.Challenge})
	if err != nil {
		page(w, http.StatusInternalServerError, "'self'", view{Error: err.Error()})
		return
	}
	s.back(w, r, a, url.Values{"code": {code}})
}

// form parses a body that is a form.
func form(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/x-www-form-urlencoded" && r.ParseForm() == nil
}

// code is what a client exchanges for tokens, once.
type code struct {
	ID, Key, Client, Redirect, Challenge string
}

// grant is what tokens stand for.
type grant struct {
	Key, Client, Resource string
	Until                 time.Time // the end of the consent
}

// token exchanges a code, or a refresh token, for tokens.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if !form(r) {
		fail(w, http.StatusBadRequest, "invalid_request", "the body is not a form")
		return
	}
	f, now := r.PostForm, s.now()
	if resource := f.Get("resource"); resource != "" && resource != s.Resource() {
		fail(w, http.StatusBadRequest, "invalid_target", "tokens are for "+s.Resource()+" only")
		return
	}
	var g grant
	switch f.Get("grant_type") {
	case "authorization_code":
		var c code
		valid, err := s.open(kindCode, f.Get("code"), now, &c) == nil, error(nil)
		if valid {
			valid, err = s.cfg.Use(r.Context(), c.ID, now.Add(codeLife))
		}
		if err != nil {
			fail(w, http.StatusInternalServerError, "server_error", err.Error())
			return
		}
		if !valid || c.Client != hashOf(f.Get("client_id")) || c.Redirect != f.Get("redirect_uri") || !proves(f.Get("code_verifier"), c.Challenge) {
			fail(w, http.StatusBadRequest, "invalid_grant", "the code is not valid for this client, redirect URI and verifier, or was used before")
			return
		}
		g = grant{c.Key, c.Client, s.Resource(), now.Add(refreshLife)}
	case "refresh_token":
		if s.open(kindRefresh, f.Get("refresh_token"), now, &g) != nil || g.Client != hashOf(f.Get("client_id")) || g.Resource != s.Resource() {
			fail(w, http.StatusBadRequest, "invalid_grant", "the refresh token is not valid for this client")
			return
		}
	default:
		fail(w, http.StatusBadRequest, "unsupported_grant_type", "use authorization_code or refresh_token")
		return
	}
	if _, err := s.cfg.Verify(r.Context(), g.Key); err != nil {
		fail(w, http.StatusBadRequest, "invalid_grant", "the API key does not work any more, or its rate is exceeded")
		return
	}
	ends := now.Add(accessLife)
	if g.Until.Before(ends) {
		ends = g.Until
	}
	access, err := s.seal(kindAccess, ends, g)
	refresh, rerr := s.seal(kindRefresh, g.Until, g)
	if err = cmp.Or(err, rerr); err != nil {
		fail(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(ends.Sub(now).Seconds()), "refresh_token": refresh,
	})
}

// proves reports whether a verifier is that of a challenge (RFC 7636).
func proves(verifier, challenge string) bool {
	return len(verifier) >= 43 && len(verifier) <= 128 && subtle.ConstantTimeCompare([]byte(hashOf(verifier)), []byte(challenge)) == 1
}

// Key returns the API key that a token of this server stands for. What is no token is returned as it is.
func (s *Server) Key(presented string) (string, error) {
	if !strings.HasPrefix(presented, kindAccess) {
		return presented, nil
	}
	var g grant
	if err := s.open(kindAccess, presented, s.now(), &g); err != nil || g.Resource != s.Resource() {
		return "", api.Errorf(api.KindUnauthenticated, "the access token is not valid, or has ended").WithHint("get a new one with the refresh token")
	}
	return g.Key, nil
}

// view is what a page shows: an error, or a request.
type view struct {
	Error                                        string
	Name, To, Metadata, Resource, Request, Wrong string
}

// page writes the page. It has no script, no style and no image.
func page(w http.ResponseWriter, status int, action string, v view) {
	var b bytes.Buffer
	if err := consentPage.Execute(&b, v); err != nil {
		http.Error(w, "the page cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action "+action)
	w.Header().Set("X-Frame-Options", "DENY")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

var consentPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Hortus</title></head>
<body>
<h1>Hortus</h1>
{{if .Error}}<p>The client cannot be connected: {{.Error}}</p>
{{else}}<p><strong>{{.Name}}</strong> asks to use {{.Resource}} in your name. It calls itself so; Hortus does not know it.</p>
<ul>
<li>Your browser is sent to <strong>{{.To}}</strong> afterwards.</li>
{{if .Metadata}}<li>The client is described at {{.Metadata}}.</li>
{{end}}<li>It can create sandboxes, run commands and start tasks within the limits of your API key, for 30 days or until the key is revoked.</li>
</ul>
<p>Allow this only if you have just asked for it at the client.</p>
{{if .Wrong}}<p role="alert">{{.Wrong}}</p>
{{end}}<form method="post" action="/oauth/authorize">
<input type="hidden" name="request" value="{{.Request}}">
<p><label>API key of a user: <input type="password" name="key" autocomplete="off" spellcheck="false"></label></p>
<p><button name="decision" value="allow">Allow</button> <button name="decision" value="deny">Deny</button></p>
</form>
{{end}}</body>
</html>
`))
