package catalogue

import (
	"context"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/internal/agent/model/retry"
)

// An embedding model is asked while a task waits, and what fails is tried again by the next task: there are few tries.
const (
	embedTries = 3
	embedFirst = 500 * time.Millisecond
	embedTotal = 5 * time.Second
)

// Embedder returns the embedding model of a name, "openai:" and the server's name of it. The errors are those of
// Open: KindInvalid for an unknown name, KindUnauthenticated if its key is missing. A key that is a secret is read at
// each call.
func (c *Catalogue) Embedder(name string) (model.Embedder, error) {
	vendor, which, _ := strings.Cut(name, ":")
	if vendor != openai.Vendor || strings.TrimSpace(which) == "" {
		return nil, api.Errorf(api.KindInvalid, "unknown embedding model %.80q", name).
			WithHint("Set %s:MODEL with the name of a model of the server at OPENAI_BASE_URL, for example openai:text-embedding-3-small.", openai.Vendor)
	}
	cfg := retry.Config{Tries: embedTries, First: embedFirst, Total: embedTotal}
	if secret := c.cfg.KeySecrets[openaiVendor.name]; secret != "" {
		// Every setting but the key is checked here.
		e, err := c.embedder(which, "")
		if err != nil {
			return nil, err
		}
		return retry.NewEmbedder(&keyedEmbedder{Embedder: e, catalogue: c, which: which, secret: secret}, cfg), nil
	}
	e, err := c.embedder(which, c.env(openaiVendor.key))
	if err != nil {
		return nil, err
	}
	if err := e.Ready(); err != nil {
		return nil, err
	}
	return retry.NewEmbedder(e, cfg), nil
}

// embedder creates a client of the embeddings API.
func (c *Catalogue) embedder(which, key string) (*openai.Embedder, error) {
	base, err := c.baseURL(openaiVendor)
	if err != nil {
		return nil, err
	}
	return openai.NewEmbedder(openai.Config{Model: which, BaseURL: base, APIKey: key, KeyHint: c.keyHint(openaiVendor), Base: c.cfg.Transport})
}

// keyedEmbedder is an embedding model whose key is a secret, which is read at each call.
type keyedEmbedder struct {
	model.Embedder // without a key
	catalogue      *Catalogue
	which, secret  string
}

// Embed implements model.Embedder.
func (k *keyedEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	key, err := k.catalogue.key(ctx, openaiVendor, k.secret, "embedding")
	if err != nil {
		return nil, err
	}
	e, err := k.catalogue.embedder(k.which, key)
	if err != nil {
		return nil, err
	}
	return e.Embed(ctx, texts)
}

// EmbedderReport says whether the embedding model of a name can be used.
func (c *Catalogue) EmbedderReport(ctx context.Context, name string) admin.ModelReport {
	r := admin.ModelReport{Name: "embedding"}
	r.BaseURL, _ = c.baseURL(openaiVendor) // Embedder returns the error of an invalid one
	e, err := c.Embedder(name)
	if secret := c.cfg.KeySecrets[openaiVendor.name]; err == nil && secret != "" {
		_, err = c.key(ctx, openaiVendor, secret, "")
	}
	if err == nil {
		r.OK, r.Model = true, e.Name()
	} else {
		r.Reason, r.Fix = err.Error(), api.HintOf(err)
	}
	return r
}
