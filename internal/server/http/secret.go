package http

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Secrets is what the server asks of secrets. No method returns a value.
type Secrets interface {
	// Set creates or replaces a secret.
	Set(ctx context.Context, name string, req secrets.Set) (secrets.Secret, error)
	Remove(ctx context.Context, name string) (secrets.Secret, error)
	Get(ctx context.Context, name string) (secrets.Secret, error)
	Page(ctx context.Context, p api.PageRequest) (rows []secrets.Secret, next string, err error)
	// Uses lists uses, the newest first. next is where the next page begins, "" after the last.
	Uses(ctx context.Context, f secrets.UseFilter, p api.PageRequest) (rows []secrets.Use, next string, err error)
}

func (d secretStore) secretRoutes() []Route {
	uses := []Param{
		{Name: "refused", Doc: "Only the uses that were refused (default false).", Type: false},
		{Name: "since", Doc: "Start of the period, in RFC 3339 (default: all stored uses).", Type: time.Time{}},
	}
	return []Route{{
		// No Creates: an idempotency key would keep a digest of the value.
		Method: "PUT", Pattern: "/v1/secrets/{name}", Name: "setSecret", Role: api.RoleUser,
		Doc: "Create or replace a secret. No answer has its value. A source other than a stored value is for the operator only: it is read on the daemon's machine, and once at once.",
		In:  secrets.Set{}, Out: secrets.Secret{},
		Handler: change(http.StatusOK, decode, d.Secrets, secretName, Secrets.Set),
	}, {
		Method: "GET", Pattern: "/v1/secrets", Name: "secrets", Role: api.RoleUser,
		Doc: "List the secrets of the account, newest first, without their values.",
		Out: []secrets.Secret{}, Paged: true,
		Handler: page(func(ctx context.Context, _ *http.Request, p api.PageRequest) ([]secrets.Secret, string, error) {
			return d.Secrets.Page(ctx, p)
		}),
	}, {
		Method: "GET", Pattern: "/v1/secrets/{name}", Name: "secret", Role: api.RoleUser,
		Doc:     "Get a secret without its value.",
		Out:     secrets.Secret{},
		Handler: on(d.Secrets, secretName, Secrets.Get),
	}, {
		Method: "DELETE", Pattern: "/v1/secrets/{name}", Name: "removeSecret", Role: api.RoleUser,
		Doc:     "Remove a secret with its value. The records of its uses stay.",
		Out:     secrets.Secret{},
		Handler: on(d.Secrets, secretName, Secrets.Remove),
	}, {
		Method: "GET", Pattern: "/v1/secrets/{name}/uses", Name: "usesOfSecret", Role: api.RoleUser,
		Doc: "List the uses of a secret, newest first, also of one that was removed. Text in them that is from a sandbox is untrusted.",
		Out: []secrets.Use{}, Paged: true, Params: uses,
		Handler: page(func(ctx context.Context, r *http.Request, p api.PageRequest) ([]secrets.Use, string, error) {
			name, err := secretName(r)
			if err != nil {
				return nil, "", err
			}
			return d.uses(ctx, r, name, p)
		}),
	}, {
		Method: "GET", Pattern: "/v1/secrets/uses", Name: "secretUses", Role: api.RoleUser,
		Doc: "List the uses of all secrets of the account, newest first. Text in them that is from a sandbox is untrusted.",
		Out: []secrets.Use{}, Paged: true, Params: uses,
		Handler: page(func(ctx context.Context, r *http.Request, p api.PageRequest) ([]secrets.Use, string, error) {
			return d.uses(ctx, r, "", p)
		}),
	}}
}

// secretName reads the name in the path.
func secretName(r *http.Request) (string, error) {
	name := r.PathValue("name")
	if !api.ValidSecretName(name) {
		return "", api.Errorf(api.KindInvalid, "%.80q is not a valid name for a secret", name).
			WithHint(`use 1 to %d lower-case letters, digits, ".", "_" and "-", beginning with a letter or a digit; "uses" is reserved`, api.MaxSecretName)
	}
	return name, nil
}

// uses lists uses of one secret, or of all for "".
func (d secretStore) uses(ctx context.Context, r *http.Request, name string, p api.PageRequest) ([]secrets.Use, string, error) {
	f := secrets.UseFilter{Secret: name}
	var err error
	if f.Refused, err = flag(r, "refused"); err != nil {
		return nil, "", err
	}
	if s := r.URL.Query().Get("since"); s != "" {
		if f.Since, err = time.Parse(time.RFC3339Nano, s); err != nil {
			return nil, "", api.Errorf(api.KindInvalid, "since %.40q is not an RFC 3339 time", s)
		}
	}
	return d.Secrets.Uses(ctx, f, p)
}

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

// Refuse answers that this daemon serves nothing now, with the status that load balancers know, whatever the kind.
func Refuse(w http.ResponseWriter, err error) {
	fail(w, statusError{err, http.StatusServiceUnavailable})
}

// withoutKey is what is kept of the answer with a new key: its ID, never the key.
func withoutKey(a storedAnswer) storedAnswer {
	var made api.CreatedKey
	_ = json.Unmarshal(a.Body, &made) // without an ID the refusal stands all the same
	b, _ := json.Marshal(api.ProblemOf(api.Errorf(api.KindConflict, "this request was already made: it created the key %s, which is shown once", made.ID).
		WithHint("if the key was lost, revoke it (DELETE /v1/keys/%s) and create another one with a new Idempotency-Key", made.ID), 0))
	return storedAnswer{Status: http.StatusConflict, Type: typeProblem, Body: b}
}

func (d system) keyRoutes() []Route {
	return []Route{{
		Method: "POST", Pattern: "/v1/keys", Name: "createKey", Role: api.RoleAdmin,
		Doc: "Create an API key. The answer is the only one that contains the key itself: a repetition with the same Idempotency-Key " +
			"creates nothing and is a 409 that names the key's ID.",
		In: api.CreateKey{}, Out: api.CreatedKey{}, Status: http.StatusCreated, Creates: true, keyed: true,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Cache-Control", "no-store")
			return idempotency{d.once.kept, withoutKey}.creates(create(http.StatusCreated, d.Keys, Keys.CreateKey))(w, r)
		},
	}, {
		Method: "GET", Pattern: "/v1/keys", Name: "listKeys", Role: api.RoleAdmin,
		Doc: "List the API keys that were not revoked, newest first, also those that have expired. The keys themselves are not included.",
		Out: []api.Key{}, Paged: true, Params: []Param{{Name: "all", Doc: "Include revoked keys (default false).", Type: false}},
		Handler: pageAll(d.Keys, Keys.KeyPage),
	}, {
		Method: "DELETE", Pattern: "/v1/keys/{id}", Name: "revokeKey", Role: api.RoleAdmin,
		Doc:     "Revoke an API key, by its id or a unique prefix of it. It is rejected from the next request on.",
		Out:     api.Key{},
		Handler: on(d.Keys, func(r *http.Request) (api.KeyID, error) { return pathID(r, d.Keys, Keys.FindKey) }, Keys.RevokeKey),
	}}
}
