package forgeserver

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// App is a GitHub App of the server.
type App struct {
	ID   int64
	Slug string
	// Key verifies what the app signs.
	Key           *rsa.PublicKey
	Installations []*Installation
}

// Installation is an installation of an app. [Server.Reinstall] changes it.
type Installation struct {
	ID      int64
	Account string
	// Repositories are the paths that it may use, Permissions the levels that it was granted.
	Repositories []string
	Permissions  map[string]string
	Suspended    bool
}

// issued is a token of an installation.
type issued struct {
	app          *App
	installation int64
	repositories []string
	permissions  map[string]string
	ends         time.Time
}

const (
	maxSignature = 10 * time.Minute
	tokenLife    = time.Hour
)

// AddApp adds an app.
func (s *Server) AddApp(a *App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Apps = append(s.cfg.Apps, a)
}

// Reinstall changes an installation.
func (s *Server) Reinstall(id int64, change func(*Installation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.cfg.Apps {
		for _, in := range a.Installations {
			if in.ID == id {
				change(in)
			}
		}
	}
}

// Issued returns the tokens that installations were given so far.
func (s *Server) Issued() (tokens []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range len(s.issued) {
		tokens = append(tokens, issuedToken(i))
	}
	return tokens
}

// IssuedPermissions are those of the token with a number, from 0.
func (s *Server) IssuedPermissions(i int) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued[i].permissions
}

// SetNow sets the clock.
func (s *Server) SetNow(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Now = now
}

func issuedToken(i int) string { return fmt.Sprintf("ghs_installation%04d", i) }

// appRoutes serves the calls that apps make as themselves.
// https://docs.github.com/rest/apps/apps
func (s *Server) appRoutes(p string) {
	handle := func(pattern string, next func(w http.ResponseWriter, r *http.Request, a *App) (int, any)) {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			a, code, v := s.app(r)
			if code == 0 {
				code, v = next(w, r, a)
			}
			answer(w, code, v)
		})
	}
	handle("GET "+p+"/app", func(_ http.ResponseWriter, r *http.Request, a *App) (int, any) {
		return http.StatusOK, object{"id": a.ID, "slug": a.Slug, "html_url": "http://" + r.Host + "/github-apps/" + a.Slug}
	})
	handle("GET "+p+"/app/installations/{id}", func(_ http.ResponseWriter, r *http.Request, a *App) (int, any) {
		for _, in := range a.Installations {
			if r.PathValue("id") == strconv.FormatInt(in.ID, 10) {
				return http.StatusOK, in.object(r, a)
			}
		}
		return githubError(http.StatusNotFound, "Not Found")
	})
	handle("GET "+p+"/repos/{owner}/{name}/installation", func(_ http.ResponseWriter, r *http.Request, a *App) (int, any) {
		for _, in := range a.Installations {
			if in.has(ownerAndName(r)) {
				return http.StatusOK, in.object(r, a)
			}
		}
		return githubError(http.StatusNotFound, "Not Found")
	})
	handle("POST "+p+"/app/installations/{id}/access_tokens", s.createToken)
}

func (in *Installation) has(path string) bool {
	return slices.ContainsFunc(in.Repositories, func(p string) bool { return strings.EqualFold(p, path) })
}

func (in *Installation) object(r *http.Request, a *App) object {
	o := object{
		"id": in.ID, "app_id": a.ID, "app_slug": a.Slug, "account": object{"login": in.Account, "type": "Organization"}, "target_type": "Organization",
		"repository_selection": "selected", "permissions": in.Permissions, "suspended_at": nil, "suspended_by": nil,
		"html_url": fmt.Sprintf("http://%s/organizations/%s/settings/installations/%d", r.Host, in.Account, in.ID),
	}
	if in.Suspended {
		o["suspended_at"] = "2026-11-01T02:03:04Z"
	}
	return o
}

// app verifies what an app signed. The caller holds the lock.
func (s *Server) app(r *http.Request) (*App, int, any) {
	refuse := func(code int, message string) (*App, int, any) {
		code, v := githubError(code, message)
		return nil, code, v
	}
	token, form := credentials(r)
	parts := strings.Split(token, ".")
	var head struct{ Alg string }
	var claims struct {
		Issuer    string `json:"iss"`
		IssuedAt  int64  `json:"iat"`
		ExpiresAt int64  `json:"exp"`
	}
	if form != "Bearer" || len(parts) != 3 || !part(parts[0], &head) || !part(parts[1], &claims) || head.Alg != "RS256" {
		return refuse(http.StatusUnauthorized, "A JSON web token could not be decoded")
	}
	at := slices.IndexFunc(s.cfg.Apps, func(a *App) bool { return strconv.FormatInt(a.ID, 10) == claims.Issuer })
	if at < 0 {
		return refuse(http.StatusNotFound, "Integration not found")
	}
	a, sum := s.cfg.Apps[at], sha256.Sum256([]byte(parts[0]+"."+parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || rsa.VerifyPKCS1v15(a.Key, crypto.SHA256, sum[:], signature) != nil {
		return refuse(http.StatusUnauthorized, "A JSON web token could not be decoded")
	}
	now := s.now()
	switch {
	case claims.IssuedAt > now.Unix():
		return refuse(http.StatusUnauthorized, "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	case claims.ExpiresAt <= now.Unix():
		return refuse(http.StatusUnauthorized, "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
	case claims.ExpiresAt > now.Add(maxSignature).Unix():
		return refuse(http.StatusUnauthorized, "'Expiration time' claim ('exp') is too far in the future")
	}
	return a, 0, nil
}

func part(text string, v any) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && json.Unmarshal(b, v) == nil
}

func (s *Server) now() time.Time {
	if s.cfg.Now != nil {
		return s.cfg.Now()
	}
	return time.Now()
}

// createToken is "Create an installation access token for an app", POST /app/installations/{installation_id}/access_tokens.
func (s *Server) createToken(w http.ResponseWriter, r *http.Request, a *App) (int, any) {
	var in struct {
		Repositories []string
		Permissions  map[string]string
	}
	if read(w, r, &in) != nil {
		return githubError(http.StatusBadRequest, "Problems parsing JSON")
	}
	at := slices.IndexFunc(a.Installations, func(in *Installation) bool { return r.PathValue("id") == strconv.FormatInt(in.ID, 10) })
	if at < 0 {
		return githubError(http.StatusNotFound, "Not Found")
	}
	of := a.Installations[at]
	if of.Suspended {
		return githubError(http.StatusForbidden, "This installation has been suspended")
	}
	t := issued{app: a, installation: of.ID, repositories: of.Repositories, permissions: of.Permissions, ends: s.now().Add(tokenLife)}
	if len(in.Repositories) > 0 {
		t.repositories = nil
		for _, name := range in.Repositories {
			path := of.Account + "/" + name
			if !of.has(path) {
				return githubError(http.StatusUnprocessableEntity, "There is at least one repository that does not exist or is not accessible to the parent installation.")
			}
			t.repositories = append(t.repositories, path)
		}
	}
	if len(in.Permissions) > 0 {
		for name, level := range in.Permissions {
			if !atLeast(of.Permissions[name], level) {
				return githubError(http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation.")
			}
		}
		t.permissions = in.Permissions
	}
	s.issued = append(s.issued, t)
	repositories := []object{}
	for _, path := range t.repositories {
		repositories = append(repositories, object{"full_name": path})
	}
	return http.StatusCreated, object{
		"token": issuedToken(len(s.issued) - 1), "expires_at": t.ends.UTC().Format(time.RFC3339), "permissions": t.permissions,
		"repository_selection": "selected", "repositories": repositories,
	}
}

func atLeast(have, want string) bool {
	order := []string{"read", "write", "admin"}
	return slices.Contains(order, want) && slices.Index(order, have) >= slices.Index(order, want)
}

// installationUser is the user of a token of an installation.
func (s *Server) installationUser(token string) (User, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range s.issued {
		if token != issuedToken(i) || !s.now().Before(t.ends) {
			continue
		}
		for _, in := range t.app.Installations {
			if in.ID == t.installation && !in.Suspended {
				return User{Login: t.app.Slug + "[bot]", Write: true, permissions: t.permissions, only: t.repositories}, true
			}
		}
	}
	return User{}, false
}

// permitted reports whether a token of an installation may make a call.
func permitted(r *http.Request, u User) bool {
	name, level := needs(r)
	return atLeast(u.permissions[name], level)
}

// needs is the permission of an installation that a call of the API needs.
func needs(r *http.Request) (name, level string) {
	level = "read"
	if r.Method != http.MethodGet {
		level = "write"
	}
	_, rest, _ := strings.Cut(r.URL.Path, "/repos/"+ownerAndName(r))
	first, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch first {
	case "pulls", "issues":
		return map[string]string{"pulls": "pull_requests", "issues": "issues"}[first], level
	case "branches", "contents":
		return "contents", level
	case "commits", "check-runs":
		if strings.HasSuffix(rest, "/check-runs") || first == "check-runs" {
			return "checks", level
		}
		return "statuses", level
	case "actions":
		return "actions", level
	}
	return "metadata", level
}
