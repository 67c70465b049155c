package rest

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
)

// App is a GitHub App with its private key.
type App struct {
	ID int64
	// Installation is that of the repository's owner; 0 to find it.
	Installation int64
	Key          *rsa.PrivateKey
}

// ParseKey reads the private key of an app: PEM as GitHub gives it, also with its line breaks replaced by spaces or removed. The error does
// not contain it.
func ParseKey(text string) (*rsa.PrivateKey, error) {
	bad := func(why string) error {
		return api.Errorf(api.KindInvalid, "the secret has no private key of a GitHub App: %s", why).
			WithHint("generate a private key in the settings of the app at GitHub, and use the .pem file that the browser saves")
	}
	body := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(body, "-----BEGIN "); ok {
		kind, rest, ok := strings.Cut(rest, "-----")
		rest, end, closed := strings.Cut(rest, "-----END ")
		if !ok || !closed || strings.TrimSpace(end) != kind+"-----" {
			return nil, bad("its PEM block is incomplete, or there are several")
		}
		if kind != "RSA PRIVATE KEY" && kind != "PRIVATE KEY" {
			return nil, bad(fmt.Sprintf("it is a PEM block %.40q", kind))
		}
		body = rest
	}
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	if err != nil {
		return nil, bad("it is not PEM, or it is encrypted")
	}
	key, err := x509.ParsePKCS1PrivateKey(der)
	if err != nil {
		var any any
		any, err = x509.ParsePKCS8PrivateKey(der)
		key, _ = any.(*rsa.PrivateKey)
	}
	if err != nil || key == nil {
		return nil, bad("it is not an RSA key")
	}
	if key.N.BitLen() < 2048 {
		return nil, bad(fmt.Sprintf("an RSA key of %d bits is too short", key.N.BitLen()))
	}
	return key, nil
}

// Permission is what an installation may do with one part of a repository.
type Permission struct {
	// Name and Level are those of the API; Label is the name at GitHub's pages.
	Name, Label, Level string
}

func (p Permission) String() string { return p.Label + ": " + p.Level }

// Permissions are those that Hortus uses. An installation token gets no others.
var Permissions = []Permission{
	{"metadata", "Metadata", "read"},
	{"contents", "Contents", "write"},
	{"pull_requests", "Pull requests", "write"},
	{"issues", "Issues", "write"},
	{"checks", "Checks", "read"},
	{"statuses", "Commit statuses", "read"},
	{"actions", "Actions", "read"},
}

// levels orders the levels of permissions.
var levels = map[string]int{"read": 1, "write": 2, "admin": 3}

// Grant is a token of an installation of an app, for one repository.
type Grant struct {
	Token string
	Ends  time.Time
	// Page is where the owner of the installation changes it; empty if the forge does not say.
	Page string
	// has are the levels of the permissions that the installation was granted.
	has map[string]string
}

// Lacks returns those of the named permissions that the installation does not have.
func (g Grant) Lacks(names ...string) (missing []Permission) {
	for _, name := range names {
		for _, p := range Permissions {
			if p.Name == name && levels[g.has[name]] < levels[p.Level] {
				missing = append(missing, p)
			}
		}
	}
	return missing
}

const (
	// signedAgo allows for a clock that is ahead, and signedFor is the life of a signature: GitHub accepts up to ten minutes.
	signedAgo = time.Minute
	signedFor = 8 * time.Minute
	// clockOff is the greatest difference between clocks that signatures allow for.
	clockOff = time.Minute
)

// sign returns the JSON Web Token that authenticates an app.
func (a App) sign(now time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{"iss": strconv.FormatInt(a.ID, 10), "iat": now.Add(-signedAgo).Unix(), "exp": now.Add(signedFor).Unix()})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.Key, crypto.SHA256, sum[:])
	if err != nil {
		return "", api.Errorf(api.KindInternal, "sign as a GitHub App: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// Grant requests a token that is good for the repository of a Config alone, and for those of Permissions that the installation has. The
// token of the Config is not used.
func (a App) Grant(ctx context.Context, cfg Config) (Grant, error) {
	if cfg.Location.Kind != forge.GitHub {
		return Grant{}, api.Errorf(api.KindInvalid, "%s is not GitHub, and has no GitHub Apps", cfg.Location.Host).WithHint("use a token of %s", cmp.Or(cfg.Location.Kind, "its user"))
	}
	now := time.Now
	if cfg.Now != nil {
		now = cfg.Now
	}
	var err error
	if cfg.Token, err = a.sign(now()); err != nil {
		return Grant{}, err
	}
	c, err := newClient(cfg, githubDialect)
	if err != nil {
		return Grant{}, err
	}
	in, err := a.installation(ctx, c)
	if err != nil {
		return Grant{}, err
	}
	out := Grant{has: in.Permissions}
	if page(in.Page) {
		out.Page = in.Page
	}
	if in.Suspended != "" {
		return out, c.errorf(api.KindDenied, "the installation of GitHub App %d at %s is suspended", a.ID, in.Account.Login).
			WithHint("Unsuspend it: %s", cmp.Or(out.Page, "in the settings of "+in.Account.Login+", under GitHub Apps"))
	}
	return a.token(ctx, c, in.ID, out)
}

// installation is an installation of an app.
type installation struct {
	ID          int64
	Page        string            `json:"html_url"`
	Suspended   string            `json:"suspended_at"`
	Permissions map[string]string `json:"permissions"`
	Account     struct{ Login string }
}

// installation finds the installation.
func (a App) installation(ctx context.Context, c *client) (in installation, err error) {
	path := "repos/" + c.cfg.Location.Path() + "/installation"
	if a.Installation > 0 {
		path = "app/installations/" + strconv.FormatInt(a.Installation, 10)
	}
	_, err = c.call(ctx, http.MethodGet, path, nil, &in)
	if api.KindOf(err) != api.KindNotFound {
		if err == nil && in.ID <= 0 {
			err = c.errorf(api.KindUnavailable, "the answer cannot be read: an installation without an ID")
		}
		return in, a.refused(c, err)
	}
	// The app itself tells a wrong ID from a missing installation.
	var self struct {
		Page string `json:"html_url"`
	}
	if _, err := c.call(ctx, http.MethodGet, "app", nil, &self); err != nil {
		if api.KindOf(err) == api.KindNotFound {
			return in, c.errorf(api.KindNotFound, "there is no GitHub App with the ID %d", a.ID).WithHint("The App ID is a number in the settings of the app.")
		}
		return in, a.refused(c, err)
	}
	install := "Install it for this repository in the settings of the app."
	if page(self.Page) {
		install = "Install it for this repository: " + self.Page + "/installations/new"
	}
	if a.Installation > 0 {
		return in, c.errorf(api.KindNotFound, "GitHub App %d has no installation %d", a.ID, a.Installation).WithHint("Leave the installation out: it is found by the repository. %s", install)
	}
	return in, c.errorf(api.KindNotFound, "GitHub App %d is not installed for %s", a.ID, c.cfg.Location.Path()).WithHint("%s", install)
}

// refused explains why an app was not authenticated.
func (a App) refused(c *client, err error) error {
	if api.KindOf(err) != api.KindUnauthenticated {
		return err
	}
	var answer *statusError
	if errors.As(err, &answer) && !answer.date.IsZero() {
		if off := c.cfg.Now().Sub(answer.date); off.Abs() > clockOff {
			word := "behind"
			if off > 0 {
				word = "ahead of"
			}
			return c.errorf(api.KindUnauthenticated, "the clock of this machine is %s %s that of the forge, so GitHub App %d cannot sign in", off.Abs().Round(time.Second), word, a.ID).
				WithHint("Set the clock of the daemon's machine, for example with: timedatectl set-ntp true")
		}
	}
	return c.errorf(api.KindUnauthenticated, "the private key is not one of GitHub App %d", a.ID).
		WithHint("Use the App ID and a private key from the settings of the same app. A key that was deleted there does not work any more.")
}

// token requests the token. Permissions that are not asked for by name would all be granted, so nothing is asked for without one.
func (a App) token(ctx context.Context, c *client, id int64, out Grant) (Grant, error) {
	path := c.cfg.Location.Path()
	want := struct {
		Repositories []string          `json:"repositories"`
		Permissions  map[string]string `json:"permissions"`
	}{[]string{path[strings.LastIndexByte(path, '/')+1:]}, map[string]string{}}
	for _, p := range Permissions {
		if level := out.has[p.Name]; levels[level] >= levels[p.Level] {
			want.Permissions[p.Name] = p.Level
		} else if levels[level] > 0 {
			want.Permissions[p.Name] = level
		}
	}
	if want.Permissions["contents"] == "" {
		return out, c.errorf(api.KindDenied, "the app's installation lacks Contents: read and write").WithHint("%s", out.Fix("Contents: read and write"))
	}
	var answer struct {
		Token        string
		Ends         time.Time `json:"expires_at"`
		Permissions  map[string]string
		Repositories []struct {
			Path string `json:"full_name"`
		}
	}
	_, err := c.call(ctx, http.MethodPost, fmt.Sprintf("app/installations/%d/access_tokens", id), want, &answer)
	var status *statusError
	switch {
	case errors.As(err, &status) && status.code == http.StatusUnprocessableEntity:
		return out, c.errorf(api.KindDenied, "the installation of GitHub App %d may not use %s: %v", a.ID, path, err).
			WithHint("Add the repository to the installation: %s", cmp.Or(out.Page, "in the settings of its owner, under GitHub Apps"))
	case api.KindOf(err) == api.KindUnauthenticated:
		return out, a.refused(c, err)
	case err != nil:
		return out, err
	case forge.CheckToken(answer.Token) != nil || answer.Ends.IsZero():
		return out, c.errorf(api.KindUnavailable, "the answer cannot be read: no token of an installation")
	}
	for _, r := range answer.Repositories {
		if !strings.EqualFold(r.Path, path) {
			return out, c.errorf(api.KindUnavailable, "the token of GitHub App %d is for %q too, so it is not used", a.ID, r.Path)
		}
	}
	for name, level := range answer.Permissions {
		if name == "metadata" && level == "read" {
			continue // every token has it
		}
		if levels[level] == 0 || levels[level] > levels[want.Permissions[name]] {
			return out, c.errorf(api.KindUnavailable, "the token of GitHub App %d has %s: %s, which was not requested, so it is not used", a.ID, name, level)
		}
	}
	out.Token = answer.Token
	// The clocks may differ: a token lives an hour from now at most.
	if out.Ends = c.cfg.Now().Add(time.Hour); answer.Ends.Before(out.Ends) {
		out.Ends = answer.Ends
	}
	return out, nil
}

// Fix says how to give an installation a permission.
func (g Grant) Fix(permission string) string {
	return fmt.Sprintf("Give the app %s under Permissions & events of its settings, then accept the change: %s", permission,
		cmp.Or(g.Page, "in the settings of the repository's owner, under GitHub Apps"))
}
