package forgeserver

import (
	"net/http"
	"strings"
)

// credentials finds a token in the forms that any forge takes, and names the form:
// "Bearer", "token", "PRIVATE-TOKEN", "Basic", or "" for none.
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

// user finds who calls, if the token is known and came in one of the forms that
// the forge takes.
func (s *Server) user(r *http.Request, forms ...string) (User, bool) {
	token, form := credentials(r)
	for _, f := range forms {
		if f == form {
			u, ok := s.cfg.Users[token]
			return u, ok && token != ""
		}
	}
	return User{}, false
}
