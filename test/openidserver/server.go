package openidserver

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Config is the client that a provider knows.
type Config struct {
	ClientID, Secret string
	// Redirect is the only URI that browsers are sent to.
	Redirect string
}

// Provider is a provider.
type Provider struct {
	URL string
	cfg Config
	key *rsa.PrivateKey

	mu       sync.Mutex
	redirect string
	claims   map[string]any
	header   map[string]any
	lenient  bool
	meta     map[string]any
	codes    map[string]request
}

// request is what a browser asked for.
type request struct {
	challenge, nonce, redirect string
}

// New starts a provider.
func New(t testing.TB, cfg Config) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{cfg: cfg, key: key, redirect: cfg.Redirect, codes: map[string]request{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p.URL = s.URL
	return p
}

// Claims says who signs in from now on. They replace the claims of a correct token, which has no others of a person; nil removes one.
func (p *Provider) Claims(c map[string]any) { p.set(func() { p.claims = maps.Clone(c) }) }

// Header replaces the header of tokens. The algorithm "none" leaves out the signature, HS256 signs with the public key.
func (p *Provider) Header(h map[string]any) { p.set(func() { p.header = maps.Clone(h) }) }

// Metadata replaces members of the metadata.
func (p *Provider) Metadata(m map[string]any) { p.set(func() { p.meta = maps.Clone(m) }) }

// Lenient accepts a code again.
func (p *Provider) Lenient(on bool) { p.set(func() { p.lenient = on }) }

// Redirect sets the URI that browsers are sent to.
func (p *Provider) Redirect(uri string) { p.set(func() { p.redirect = uri }) }

func (p *Provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
	}
	maps.Copy(m, p.meta)
	answer(w, http.StatusOK, m)
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "use": "sig", "kid": "1", "n": encode(p.key.N.Bytes()), "e": encode(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// authorize sends the browser back at once.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := r.URL.Query()
	if q.Get("client_id") != p.cfg.ClientID || q.Get("redirect_uri") != p.redirect || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "invalid request: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.codes[code] = request{q.Get("code_challenge"), q.Get("nonce"), q.Get("redirect_uri")}
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}
	http.Redirect(w, r, p.redirect+"?"+back.Encode(), http.StatusSeeOther)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if id != p.cfg.ClientID || secret != p.cfg.Secret {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	code := r.PostFormValue("code")
	asked, found := p.codes[code]
	if !p.lenient {
		delete(p.codes, code)
	}
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !found || r.PostFormValue("redirect_uri") != asked.redirect || subtle.ConstantTimeCompare([]byte(encode(sum[:])), []byte(asked.challenge)) != 1 {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "id_token": p.sign(asked.nonce)})
}

// sign makes an ID token.
func (p *Provider) sign(nonce string) string {
	now := time.Now()
	claims := map[string]any{"iss": p.URL, "aud": p.cfg.ClientID, "nonce": nonce, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix()}
	for name, v := range p.claims {
		if claims[name] = v; v == nil {
			delete(claims, name)
		}
	}
	header := map[string]any{"alg": "RS256", "kid": "1", "typ": "JWT"}
	maps.Copy(header, p.header)
	h, _ := json.Marshal(header)
	c, _ := json.Marshal(claims)
	text := encode(h) + "." + encode(c)
	return text + "." + encode(p.signature(header["alg"], text))
}

func (p *Provider) signature(algorithm any, text string) []byte {
	switch algorithm {
	case "none":
		return nil
	case "HS256": // with what everybody knows, as if it were a secret
		public, _ := x509.MarshalPKIXPublicKey(&p.key.PublicKey)
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	sum := sha256.Sum256([]byte(text))
	signed, err := rsa.SignPKCS1v15(nil, p.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return signed
}
