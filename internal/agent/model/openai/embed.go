package openai

import (
	"context"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/hosted"
)

// The limits of one answer with vectors: a number of MaxDimension of each of MaxTexts texts has some twenty bytes.
const (
	embedBytes = 16 << 20
	embedIdle  = 30 * time.Second
	embedWhole = time.Minute
)

// Embedder is an embedding model behind OpenAI's embeddings API.
type Embedder struct {
	cfg      Config
	client   *hosted.Client
	official bool
}

var _ model.Embedder = (*Embedder)(nil)

// NewEmbedder makes an embedding model; API, MaxTokens and Price of the configuration are for other models. It calls
// nobody. KindInvalid without the name of a model: there is no default, since vectors are kept with it.
func NewEmbedder(cfg Config) (*Embedder, error) {
	if cfg.Model == "" {
		return nil, api.Errorf(api.KindInvalid, "openai: an embedding model without a name").WithHint("Add the name: %s:MODEL.", Vendor)
	}
	cfg.Vendor = Vendor
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if cfg.Limits == (hosted.Limits{}) {
		cfg.Limits = hosted.Limits{Bytes: embedBytes, Idle: embedIdle, Whole: embedWhole}
	}
	e := &Embedder{cfg: cfg, official: isOfficial(cfg.BaseURL), client: newClient(cfg, hosted.NewDocumentClient(cfg.Base, cfg.Limits))}
	e.client.Endpoint.Choice, e.client.Endpoint.Ability = "embedding in [model], with the value", "embeddings of texts of this length"
	return e, nil
}

// Name is "openai:" and the server's name.
func (e *Embedder) Name() string { return Vendor + ":" + e.cfg.Model }

// Ready returns why no call can be made: KindUnauthenticated without a key.
func (e *Embedder) Ready() error {
	if e.cfg.APIKey == "" && e.official {
		return e.client.Endpoint.NoKey()
	}
	return nil
}

// Embed implements [model.Embedder].
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if err := e.Ready(); err != nil {
		return nil, err
	}
	if len(texts) == 0 || len(texts) > model.MaxTexts {
		return nil, api.Errorf(api.KindInvalid, "%d texts for an embedding model: there must be 1 to %d", len(texts), model.MaxTexts)
	}
	for _, t := range texts {
		if strings.TrimSpace(t) == "" || len(t) > model.MaxText {
			return nil, api.Errorf(api.KindInvalid, "a text of %d bytes for an embedding model: it must have 1 to %d, and not only spaces", len(t), model.MaxText)
		}
	}
	body, err := e.client.Document(ctx, "/embeddings", embeddingsRequest{e.cfg.Model, texts})
	if err != nil {
		return nil, err
	}
	vectors, err := readVectors(body, len(texts))
	if err != nil {
		return nil, e.client.Endpoint.Failure(ctx, err)
	}
	return vectors, nil
}

type embeddingsRequest struct {
	Model string   `json:"model"`
	Input []string `json:"input"`
}
