package http

import (
	"net/http"

	"hortus.dev/api"
)

func (d egress) grantRoutes() []Route {
	return []Route{{
		Method: "DELETE", Pattern: "/v1/sandboxes/{id}/secrets/{name}", Name: "revokeSecret", Role: api.RoleUser,
		Doc: "Take a secret from a sandbox, for good, with the rules that are there for it. Requests that begin later are refused.",
		Out: api.Sandbox{},
		Handler: give(func(r *http.Request) (row api.Sandbox, err error) {
			name, err := secretName(r)
			if err != nil {
				return row, err
			}
			id, err := sandboxID(d.Sandboxes)(r)
			if err != nil {
				return row, err
			}
			return d.Egress.RevokeSecret(r.Context(), id, name)
		}),
	}}
}
