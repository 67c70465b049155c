package catalogue

import (
	"context"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/anthropic"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/internal/agent/model/retry"
)

// client is a client of a vendor's API.
type client interface {
	model.Model
	// Ready returns why no call can be made.
	Ready() error
}

// hosted returns a model of a vendor; "" is the vendor's default.
func (c *Catalogue) hosted(v vendor, which string) (model.Model, error) {
	if name := c.cfg.KeySecrets[v.name]; name != "" {
		// Every setting but the key is checked here.
		m, err := c.client(v, which, "")
		if err != nil {
			return nil, err
		}
		return retry.New(&secretKeyModel{Model: m, catalogue: c, vendor: v, which: which, secret: name}, retry.Config{}), nil
	}
	m, err := c.client(v, which, c.env(v.key))
	if err != nil {
		return nil, err
	}
	if err := m.Ready(); err != nil {
		return nil, err
	}
	return retry.New(m, retry.Config{}), nil
}

// client creates a client of a vendor's API.
func (c *Catalogue) client(v vendor, which, key string) (client, error) {
	base, err := c.baseURL(v)
	if err != nil {
		return nil, err
	}
	if v.name == anthropic.Vendor {
		return anthropic.New(anthropic.Config{
			// The API's paths begin with the version, so a base URL with it is equivalent.
			Model: which, BaseURL: strings.TrimSuffix(base, "/v1"), APIKey: key, KeyHint: c.keyHint(v), Base: c.cfg.Transport,
		}), nil
	}
	m, err := openai.New(openai.Config{
		Model: which, BaseURL: base, APIKey: key, API: openai.API(strings.TrimSpace(c.cfg.Getenv(openaiAPI))),
		KeyHint: c.keyHint(v), Base: c.cfg.Transport,
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// key returns the key of a vendor from a secret, for a purpose, or to see whether it can be read.
func (c *Catalogue) key(ctx context.Context, v vendor, name, purpose string) (string, error) {
	address, err := c.baseURL(v)
	if err != nil {
		return "", err
	}
	key, err := c.cfg.Key(ctx, name, purpose, address)
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		e := api.AsError(err)
		return "", api.Errorf(e.Kind, "the key for %s from secret %s: %w", v.name, name, err).WithHint("%s", e.Hint)
	}
	return strings.TrimSpace(key), nil
}

// secretKeyModel is a hosted model whose key is a secret. The key is read at each call, so that one that
// was set anew is used at once.
type secretKeyModel struct {
	model.Model // without a key
	catalogue   *Catalogue
	vendor      vendor
	which       string
	secret      string
}

// MaxTemperature implements model.Tempered.
func (k *secretKeyModel) MaxTemperature() (float64, bool) { return model.MaxTemperature(k.Model) }

// Unwrap returns the model without its key.
func (k *secretKeyModel) Unwrap() model.Model { return k.Model }

// Generate implements model.Model.
func (k *secretKeyModel) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	key, err := k.catalogue.key(ctx, k.vendor, k.secret, "model")
	if err != nil {
		return model.Response{}, err
	}
	m, err := k.catalogue.client(k.vendor, k.which, key)
	if err != nil {
		return model.Response{}, err
	}
	return m.Generate(ctx, req, deltas)
}
