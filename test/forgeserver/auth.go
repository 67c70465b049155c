package forgeserver

import (
	"net/http"
	"strings"
)

// credentials returns the token of a request and how it was sent: "Bearer", "token",
// "PRIVATE-TOKEN", "Basic", or "" if there is none.
func credentials(r *http.Request) (token, form string) {
	if t := r.Header.Get("PRIVATE-TOKEN"); t != "" {
		return t, "PRIVATE-TOKEN"
	}
	if _, password, ok := r.BasicAuth(); ok {
		return password, "Basic"
	}
	word, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case ok && strings.EqualFold(word, "bearer"):
		return token, "Bearer"
	case ok && strings.EqualFold(word, "token"):
		return token, "token"
	}
	return "", ""
}

// user returns the user of a request, if the token is known and was sent in one of the
// given forms.
func (s *Server) user(r *http.Request, forms ...string) (User, bool) {
	token, form := credentials(r)
	for _, f := range forms {
		if f == form {
			u, ok := s.cfg.Users[token]
			if !ok {
				u, ok = s.installationUser(token)
			}
			return u, ok && token != ""
		}
	}
	return User{}, false
}

// anonymous reports whether a request without a token reads a repository that is public.
func anonymous(r *http.Request, repo *Repository) bool {
	_, form := credentials(r)
	return form == "" && r.Method == http.MethodGet && repo != nil && repo.Public
}
