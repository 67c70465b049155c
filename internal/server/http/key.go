package http

import (
	"context"
	"net/http"

	"hortus.dev/api"
)

// Keys is what the server asks of API keys.
type Keys interface {
	CreateKey(ctx context.Context, req api.CreateKey) (api.CreatedKey, error)
	// Keys lists those that work, the newest first, or all that ever were.
	KeyPage(ctx context.Context, all bool, p api.PageRequest) (rows []api.Key, next string, err error)
	FindKey(ctx context.Context, prefix string) (api.KeyID, error)
	// RevokeKey is idempotent.
	RevokeKey(ctx context.Context, id api.KeyID) (api.Key, error)
}

// Fail answers with an error as the server's own handlers do.
func Fail(w http.ResponseWriter, err error) { fail(w, err) }

func (d system) keyRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/keys", Name: "createKey", Role: api.RoleAdmin,
		Doc: "Create an API key. The answer is the only one that contains the key itself.",
		In:  api.CreateKey{}, Out: api.CreatedKey{}, Status: http.StatusCreated,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Cache-Control", "no-store")
			return create(http.StatusCreated, d.Keys, Keys.CreateKey)(w, r)
		},
	}, {
		Method: "GET", Pattern: "/v1/keys", Name: "listKeys", Role: api.RoleAdmin,
		Doc: "List the active API keys, newest first. The keys themselves are not included.",
		Out: []api.Key{}, Paged: true, Params: []Param{{Name: "all", Doc: "Include revoked keys (default false).", Type: false}},
		Handler: pageAll(d.Keys, Keys.KeyPage),
	}, {
		Method: "DELETE", Pattern: "/v1/keys/{id}", Name: "revokeKey", Role: api.RoleAdmin,
		Doc:     "Revoke an API key, by its id or a unique prefix of it. It is rejected from the next request on.",
		Out:     api.Key{},
		Handler: on(d.Keys, func(r *http.Request) (api.KeyID, error) { return pathID(r, d.Keys, Keys.FindKey) }, Keys.RevokeKey),
	}}
}
