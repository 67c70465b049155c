package forgeserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// page returns the page of a list that ?page and the parameter size select, and the number
// of the next page, or 0.
func page[T any](r *http.Request, all []T, size string, normal, most int) (list []T, next int) {
	n, err := strconv.Atoi(r.URL.Query().Get(size))
	if err != nil || n <= 0 {
		n = normal
	}
	n = min(n, most)
	at, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || at <= 0 {
		at = 1
	}
	from := min((at-1)*n, len(all))
	to := min(from+n, len(all))
	if to < len(all) {
		next = at + 1
	}
	return all[from:to], next
}

// list returns a page of rows as an answer.
func list[T any](s *Server, w http.ResponseWriter, r *http.Request, all []T, size string, normal, most int, row func(T) object) (int, any) {
	some, next := page(r, all, size, normal, most)
	s.link(w, r, next)
	out := []object{}
	for _, v := range some {
		out = append(out, row(v))
	}
	return http.StatusOK, out
}

// link sets the headers for the next page of a list.
func (s *Server) link(w http.ResponseWriter, r *http.Request, next int) {
	if s.cfg.Kind == GitLab {
		w.Header().Set("X-Next-Page", strings.TrimPrefix(strconv.Itoa(next), "0"))
	}
	if next == 0 {
		return
	}
	u := *r.URL
	q := u.Query()
	q.Set("page", strconv.Itoa(next))
	u.RawQuery = q.Encode()
	w.Header().Set("Link", fmt.Sprintf(`<http://%s%s>; rel="next"`, r.Host, u.RequestURI()))
}

// object is a JSON object.
type object map[string]any

// onRepository serves a call about a repository. It returns the status code and the value
// of the answer.
type onRepository func(w http.ResponseWriter, r *http.Request, repo *Repository, u User) (int, any)

// check does what a forge does before every call. If code is not 0, the call is refused.
type check func(s *Server, w http.ResponseWriter, r *http.Request) (repo *Repository, u User, code int, refusal any)

// handle registers a call about a repository.
func (s *Server) handle(pattern string, before check, next onRepository) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		repo, u, code, v := before(s, w, r)
		if code == 0 {
			s.mu.Lock()
			defer s.mu.Unlock()
			code, v = next(w, r, repo, u)
		}
		answer(w, code, v)
	})
}

// ownerAndName returns the path of the repository that a request is about.
func ownerAndName(r *http.Request) string { return r.PathValue("owner") + "/" + r.PathValue("name") }

// answer writes v as JSON, or unchanged if it is a string.
func answer(w http.ResponseWriter, code int, v any) {
	if text, ok := v.(string); ok {
		http.Error(w, text, code)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // fails if the client disconnected
}

// read decodes a request's body.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	return json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20)).Decode(v)
}
