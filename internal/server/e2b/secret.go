package e2b

import (
	"context"
	"net/http"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Secrets is what the server asks of the caller's secrets. No method returns a value.
type Secrets interface {
	// Set creates or replaces a secret; see secrets.Set.Version.
	Set(ctx context.Context, name string, req secrets.Set) (secrets.Secret, error)
	Get(ctx context.Context, name string) (secrets.Secret, error)
	Page(ctx context.Context, p api.PageRequest) (rows []secrets.Secret, next string, err error)
	Remove(ctx context.Context, name string) (secrets.Secret, error)
}

// secretStore serves requests about secrets.
type secretStore struct{ secrets Secrets }

func (d secretStore) register(to *router) {
	to.handle("GET /secrets", d.list, "limit", "nextToken")
	to.handle("POST /secrets", d.create)
	to.handle("GET /secrets/{id}", d.get)
	to.handle("POST /secrets/{id}", d.update)
	to.handle("DELETE /secrets/{id}", d.remove)
}

// wireSecretRow is a secret as the wire has it.
type wireSecretRow struct {
	SecretID  string            `json:"secretID"`
	Name      string            `json:"name"`
	Version   int64             `json:"currentVersion"`
	Metadata  map[string]string `json:"metadata"`
	CreatedAt time.Time         `json:"createdAt"`
	UpdatedAt time.Time         `json:"updatedAt"`
}

func secretRow(s secrets.Secret) wireSecretRow {
	out := wireSecretRow{SecretID: s.ID, Name: s.Name, Version: s.Version, Metadata: s.Metadata, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC()}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	return out
}

// idPrefix begins the IDs of secrets, and no name.
const idPrefix = "sec_"

// secretName returns the name of a secret as it is stored: case and spaces around it do not count.
func secretName(raw string) (string, bool) {
	name := strings.ToLower(strings.TrimSpace(raw))
	return name, api.ValidSecretName(name) && !strings.HasPrefix(name, idPrefix)
}

type newSecret struct {
	Name     string            `json:"name"`
	Value    string            `json:"value"`
	Metadata map[string]string `json:"metadata"`
}

// String keeps the value out of what is logged.
func (newSecret) String() string { return "secret" }

func (d secretStore) create(w http.ResponseWriter, r *http.Request) error {
	var in newSecret
	if err := decode(w, r, &in); err != nil {
		return err
	}
	name, ok := secretName(in.Name)
	if !ok {
		return api.Errorf(api.KindInvalid, `option "name": %.80q is not a valid name for a secret: it has 1 to %d letters, digits, ".", "_" and "-", begins with a letter or a digit, and neither begins with %q nor is "uses"`, in.Name, api.MaxSecretName, idPrefix)
	}
	s, err := d.secrets.Set(r.Context(), name, secrets.Set{Value: in.Value, Bindings: []secrets.Binding{}, Metadata: in.Metadata, ForHeaders: true, Version: 1})
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, secretRow(s))
}

// maxUpdates is how often an update is tried while others update the same secret.
const maxUpdates = 10

func (d secretStore) update(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Value    string             `json:"value"`
		Metadata *map[string]string `json:"metadata"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	var err error
	for range maxUpdates {
		var old, s secrets.Secret
		if old, err = d.find(r); err != nil {
			return err
		}
		next := secrets.Set{Value: in.Value, Bindings: []secrets.Binding{}, Metadata: old.Metadata, ForHeaders: true, Version: old.Version + 1}
		if in.Metadata != nil {
			next.Metadata = *in.Metadata
		}
		s, err = d.secrets.Set(r.Context(), old.Name, next)
		if err == nil {
			return answer(w, http.StatusOK, secretRow(s))
		}
		if api.KindOf(err) != api.KindConflict {
			return err
		}
	}
	return err
}

func (d secretStore) get(w http.ResponseWriter, r *http.Request) error {
	s, err := d.find(r)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, secretRow(s))
}

func (d secretStore) remove(w http.ResponseWriter, r *http.Request) error {
	s, err := d.find(r)
	if err != nil {
		return err
	}
	_, err = d.secrets.Remove(r.Context(), s.Name)
	return done(w, err)
}

// find returns the secret of a path, which has its ID or its name. Secrets that are not for headers
// are none of this API.
func (d secretStore) find(r *http.Request) (secrets.Secret, error) {
	raw := r.PathValue("id")
	none := api.Errorf(api.KindNotFound, "secret %.140q was not found", raw)
	if strings.HasPrefix(raw, idPrefix) {
		for s, err := range api.Pages(r.Context(), d.secrets.Page) {
			if err != nil {
				return s, err
			}
			if s.ID == raw && s.ForHeaders {
				return s, nil
			}
		}
		return secrets.Secret{}, none
	}
	name, ok := secretName(raw)
	if !ok {
		return secrets.Secret{}, none
	}
	s, err := d.secrets.Get(r.Context(), name)
	if api.KindOf(err) == api.KindNotFound || err == nil && !s.ForHeaders {
		err = none
	}
	return s, err
}

func (d secretStore) list(w http.ResponseWriter, r *http.Request) error {
	p, err := readPage(r.URL.Query())
	if err != nil {
		return err
	}
	rows := window[secrets.Secret]{page: p, at: func(s secrets.Secret) position { return position{s.CreatedAt, s.ID} }}
	for s, err := range api.Pages(r.Context(), d.secrets.Page) {
		if err != nil {
			return err
		}
		if s.ForHeaders {
			rows.add(s)
		}
	}
	return answerWindow(w, rows, secretRow)
}
