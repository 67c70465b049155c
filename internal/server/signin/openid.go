package signin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/server/openid"
)

const (
	// OpenIDPath says which provider of OpenID Connect there is, and begins a sign-in with it.
	OpenIDPath = "/console/oidc"

	openIDCookie = "hortus-oidc"
)

// People are the keys of those who sign in with OpenID Connect.
type People interface {
	// Personal returns the key of a person with an account and a role, and revokes the person's other keys.
	Personal(ctx context.Context, p api.Person, account string, role api.Role) (api.Key, error)
	// Leave revokes all keys of a person.
	Leave(ctx context.Context, p api.Person) error
}

// openIDAnswer is what the page brings from the provider.
type openIDAnswer struct {
	State  string `json:"state"`
	Code   string `json:"code"`
	Issuer string `json:"iss,omitempty"`
	// Page is the text that the page was given when the sign-in began.
	Page string `json:"page"`
}

// Offer is the provider that the page offers.
type Offer struct {
	// Issuer is empty if there is none.
	Issuer string `json:"issuer"`
	// URL is the page of the provider where a sign-in that began continues, and Page the text that the console keeps until then.
	URL  string `json:"url,omitempty"`
	Page string `json:"page,omitempty"`
}

// ServeOpenID serves OpenIDPath: GET says which provider there is, POST begins a sign-in.
func (s *Sessions) ServeOpenID(w http.ResponseWriter, r *http.Request) {
	head(w)
	err := s.checkPage(r)
	var out Offer
	if s.cfg.OpenID != nil {
		out.Issuer = s.cfg.OpenID.Issuer()
	}
	switch {
	case err != nil:
	case r.Method == http.MethodPost:
		err = s.begin(w, r, &out)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET, POST")
		err = api.Errorf(api.KindInvalid, "%s does not accept %.20s", OpenIDPath, r.Method)
	}
	if err != nil {
		s.cfg.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the client is gone
}

// begin begins a sign-in.
func (s *Sessions) begin(w http.ResponseWriter, r *http.Request, out *Offer) error {
	if s.cfg.OpenID == nil {
		return noProvider()
	}
	// The provider sends the browser to the public URL, and this page's cookie and storage are not there.
	if to := s.cfg.OpenID.PublicURL(); !strings.EqualFold(r.Host, s.public.Host) {
		return api.Errorf(api.KindDenied, "%s sends browsers to %s, and this page is of %.100q", s.cfg.OpenID.Issuer(), to, r.Host).WithHint("open %s and sign in there", to)
	}
	begun, err := s.cfg.OpenID.Begin(r.Context())
	if err != nil {
		return err
	}
	http.SetCookie(w, s.cookie(r, openIDCookie, begun.Cookie, int(openid.Life.Seconds())))
	out.URL, out.Page = begun.URL, begun.Page
	return nil
}

func noProvider() error {
	return api.Errorf(api.KindUnsupported, "this daemon has no sign-in with OpenID Connect").
		WithHint("sign in with an API key, or the administrator sets oidc.issuer, oidc.client-id and oidc.rules")
}

// finish ends a sign-in, and returns the person's key. Its cookie works once.
func (s *Sessions) finish(w http.ResponseWriter, r *http.Request, in openIDAnswer) (api.KeyID, error) {
	if s.cfg.OpenID == nil {
		return "", noProvider()
	}
	http.SetCookie(w, s.cookie(r, openIDCookie, "", -1))
	result, err := s.cfg.OpenID.Finish(r.Context(), openid.Answer{Cookie: s.cookieOf(r, openIDCookie), Page: in.Page, State: in.State, Code: in.Code, Issuer: in.Issuer})
	if err != nil {
		return "", err
	}
	if result.Denied != nil {
		if err := s.cfg.People.Leave(r.Context(), result.Person); err != nil {
			return "", err
		}
		return "", result.Denied
	}
	key, err := s.cfg.People.Personal(r.Context(), result.Person, result.Account, result.Role)
	return key.ID, err
}

// errorCode is the form of the error codes of OAuth.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// ServeCallback serves openid.CallbackPath, where a provider sends browsers. It leads to the page of the console, with the answer behind #, which is in
// no log. It does nothing else: only the page can end the sign-in.
func (s *Sessions) ServeCallback(w http.ResponseWriter, r *http.Request) {
	head(w)
	w.Header().Set("Referrer-Policy", "no-referrer")
	err := s.CheckHost(r)
	if err == nil && r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		err = api.Errorf(api.KindInvalid, "%s does not accept %.20s", openid.CallbackPath, r.Method)
	}
	if err != nil {
		s.cfg.Fail(w, err)
		return
	}
	q := r.URL.Query()
	parts := []string{"", "oidc", q.Get("state"), q.Get("code"), q.Get("iss")}
	if code := q.Get("error"); code != "" {
		if !errorCode.MatchString(code) {
			code = "invalid"
		}
		parts = []string{"", "oidc-error", code}
	}
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	w.Header().Set("Location", "/#"+strings.Join(parts, "/"))
	w.WriteHeader(http.StatusSeeOther)
}
