package http

import (
	"net/http"

	"hortus.dev/api"
)

func (d screens) ideRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/sandboxes/{id}/ide/url", Name: "ideURL", Role: api.RoleUser,
		Doc: "Make the URL at which a browser opens the editor inside the sandbox, at the idePort of its template. It works once, for ten minutes.",
		Out: api.PortURL{},
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			out, err := d.ideURL(r)
			w.Header().Set("Cache-Control", "no-store")
			return reply(w, http.StatusOK, out, err)
		},
	}}
}

// ideURL makes the URL of the editor, if something listens there.
func (d screens) ideURL(r *http.Request) (out api.PortURL, err error) {
	id, err := sandboxID(d.sandboxes)(r)
	if err != nil {
		return out, err
	}
	s, err := d.sandboxes.Get(r.Context(), id)
	if err != nil {
		return out, err
	}
	if s.IDEPort == 0 || !s.PrivateTraffic {
		return out, api.Errorf(api.KindConflict, "sandbox %s has no editor", id).
			WithHint("use a sandbox of a template that was created with hortus template create ide --preset ide")
	}
	conn, err := d.sandboxes.Dial(r.Context(), id, s.IDEPort)
	if err != nil {
		return out, err
	}
	if err := conn.Close(); err != nil {
		return out, api.Errorf(api.KindUnavailable, "no editor answers in sandbox %s at port %d: %w", id, s.IDEPort, err)
	}
	return d.portURL(s, s.IDEPort)
}
