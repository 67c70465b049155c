package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// SecretService keeps secrets and lists their uses. Nothing returns the value of a secret.
type SecretService struct{ service }

const secretsPath = "/v1/secrets"

// Set creates or replaces a secret.
func (s *SecretService) Set(ctx context.Context, name string, req secrets.Set) (secrets.Secret, error) {
	var out secrets.Secret
	path, err := secretPath(name)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPut, path, req, &out)
}

// Get returns a secret. It fails with KindNotFound if there is none of the name.
func (s *SecretService) Get(ctx context.Context, name string) (secrets.Secret, error) {
	var out secrets.Secret
	path, err := secretPath(name)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodGet, path, nil, &out)
}

// Remove removes a secret with its value, and returns what it was. The records of its uses stay.
func (s *SecretService) Remove(ctx context.Context, name string) (secrets.Secret, error) {
	var out secrets.Secret
	path, err := secretPath(name)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodDelete, path, nil, &out)
}

// List lists the secrets of the account, the newest first.
func (s *SecretService) List(ctx context.Context) ([]secrets.Secret, error) {
	return collect[secrets.Secret](ctx, s.client, secretsPath, nil, 0)
}

// All yields the secrets of the account, the newest first, page by page. It ends with the first
// error.
func (s *SecretService) All(ctx context.Context) iter.Seq2[secrets.Secret, error] {
	return walk[secrets.Secret](ctx, s.client, secretsPath, nil)
}

// UsePage returns one page of the uses that a filter selects, the newest first, and the cursor of
// the next page, which is "" after the last. Text in a use that is from a sandbox is untrusted.
func (s *SecretService) UsePage(ctx context.Context, f secrets.UseFilter, p api.PageRequest) ([]secrets.Use, string, error) {
	path, q, err := usesQuery(f)
	if err != nil {
		return nil, "", err
	}
	return readPage[secrets.Use](ctx, s.client, path, q, p)
}

// Uses yields the uses that a filter selects, the newest first, page by page. It ends with the
// first error.
func (s *SecretService) Uses(ctx context.Context, f secrets.UseFilter) iter.Seq2[secrets.Use, error] {
	path, q, err := usesQuery(f)
	if err != nil {
		return func(yield func(secrets.Use, error) bool) { yield(secrets.Use{}, err) }
	}
	return walk[secrets.Use](ctx, s.client, path, q)
}

func usesQuery(f secrets.UseFilter) (path string, q url.Values, err error) {
	path, q = secretsPath+"/uses", url.Values{}
	if f.Secret != "" {
		if path, err = secretPath(f.Secret); err != nil {
			return "", nil, err
		}
		path += "/uses"
	}
	if f.Refused {
		q.Set("refused", "1")
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return path, q, nil
}

// secretPath checks what becomes a part of a path.
func secretPath(name string) (string, error) {
	if !api.ValidSecretName(name) {
		return "", api.Errorf(api.KindInvalid, "%.80q is not a valid name for a secret", name).
			WithHint(`a name has 1 to %d lower-case letters, digits, ".", "_" and "-", and begins with a letter or a digit; "uses" is reserved`, api.MaxSecretName)
	}
	return secretsPath + "/" + name, nil
}
