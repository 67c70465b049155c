package openid

import (
	"errors"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"hortus.dev/api"
)

// anybody is the value of a rule that matches everybody.
const anybody = "*"

// Rule gives those with a value of the claim an account and a role.
type Rule struct {
	Value   string
	Account string
	Role    api.Role
}

// String returns the form that ParseRule reads.
func (r Rule) String() string { return r.Value + "=" + r.Account + ":" + string(r.Role) }

// ParseRule reads VALUE=ACCOUNT or VALUE=ACCOUNT:ROLE. The role is user if it is missing; the value * matches everybody.
func ParseRule(text string) (Rule, error) {
	i := strings.LastIndex(text, "=")
	if i < 1 {
		return Rule{}, api.Errorf(api.KindInvalid, "%.100q is not a rule", text).
			WithHint(`write VALUE=ACCOUNT or VALUE=ACCOUNT:ROLE, such as "hortus-admins=default:admin" or "developers=team"`)
	}
	account, role, _ := strings.Cut(text[i+1:], ":")
	r := Rule{Value: strings.TrimSpace(text[:i]), Account: strings.TrimSpace(account), Role: api.Role(strings.TrimSpace(role))}
	if r.Role == "" {
		r.Role = api.RoleUser
	}
	return r, nil
}

// claims are those of an ID token.
type claims struct {
	Email    string
	Verified bool
	Party    string // azp
	all      map[string]any
}

func claimsOf(token *oidc.IDToken) (c claims, err error) {
	if err := token.Claims(&c.all); err != nil {
		return c, err
	}
	c.Email, _ = c.all["email"].(string)
	c.Party, _ = c.all["azp"].(string)
	// Some providers write it as a text.
	c.Verified = c.all["email_verified"] == true || c.all["email_verified"] == "true"
	return c, nil
}

// values returns those of a claim: a text, or a list of texts.
func (c claims) values(name string) []string {
	switch v := c.all[name].(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// grant returns what the first rule that matches gives a person.
func (p *Provider) grant(c claims) (account string, role api.Role, denied error) {
	_, domain, _ := strings.Cut(c.Email, "@")
	switch {
	case c.Email == "" || domain == "" || strings.Contains(domain, "@"):
		return "", "", api.Errorf(api.KindDenied, "%s does not say your e-mail address", p.cfg.Issuer).
			WithHint("the administrator adds the scope email to oidc.scopes, and the claims email and email_verified to the ID token")
	case !c.Verified:
		return "", "", api.Errorf(api.KindDenied, "%s has not verified your e-mail address %.200q", p.cfg.Issuer, c.Email).
			WithHint("verify the address at the provider; the administrator checks that the ID token has the claim email_verified")
	case len(p.cfg.Domains) > 0 && !slices.ContainsFunc(p.cfg.Domains, func(d string) bool { return strings.EqualFold(d, domain) }):
		return "", "", api.Errorf(api.KindDenied, "e-mail addresses of %.200q may not sign in", domain).WithHint("the administrator adds the domain to oidc.domains")
	}
	values := c.values(p.cfg.Claim)
	for _, r := range p.cfg.Rules {
		if r.Value == anybody || slices.ContainsFunc(values, func(v string) bool { return v == r.Value || p.cfg.Claim == "email" && strings.EqualFold(v, r.Value) }) {
			return r.Account, r.Role, nil
		}
	}
	if len(values) == 0 {
		return "", "", api.Errorf(api.KindDenied, "the ID token of %s for %.200q has no claim %q", p.cfg.Issuer, c.Email, p.cfg.Claim).
			WithHint("the administrator adds the claim to the ID token at the provider, or its scope to oidc.scopes, or sets oidc.claim")
	}
	return "", "", api.Errorf(api.KindDenied, "%.200q may not use this daemon: no rule matches %s %.500q", c.Email, p.cfg.Claim, strings.Join(values, ", ")).
		WithHint("the administrator adds a rule for one of these values to oidc.rules")
}

// refusal returns what the provider said when it refused a code, without the text of its answer, which may be long and may have secrets.
func refusal(err error) string {
	var e *oauth2.RetrieveError
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case e.ErrorCode != "":
		return "error " + strings.Map(printable, e.ErrorCode)
	}
	return "status " + e.Response.Status
}

// printable is for strings.Map: it removes what an error code does not have.
func printable(r rune) rune {
	if r >= 'a' && r <= 'z' || r == '_' {
		return r
	}
	return -1
}
