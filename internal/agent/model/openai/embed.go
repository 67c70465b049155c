package openai

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

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
	end      hosted.Endpoint
	official bool
	service  sdk.EmbeddingService
}

var _ model.Embedder = (*Embedder)(nil)

// NewEmbedder makes an embedding model; API, MaxTokens and Price of the configuration are for other models. It calls
// nobody. KindInvalid without the name of a model: there is no default, since vectors are kept with it.
func NewEmbedder(cfg Config) (*Embedder, error) {
	if cfg.Model == "" {
		return nil, api.Errorf(api.KindInvalid, "openai: an embedding model without a name").WithHint("Add the name: %s:MODEL.", Vendor)
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if cfg.Limits == (hosted.Limits{}) {
		cfg.Limits = hosted.Limits{Bytes: embedBytes, Idle: embedIdle, Whole: embedWhole}
	}
	u, err := url.Parse(cfg.BaseURL)
	e := &Embedder{cfg: cfg, official: err == nil && u.Hostname() == "api.openai.com", end: hosted.Endpoint{
		Vendor: Vendor, Model: cfg.Model, BaseURL: cfg.BaseURL, Key: cfg.APIKey, KeyHint: cfg.KeyHint,
		Choice: "embedding in [model], with the value", Ability: "embeddings of texts of this length",
	}}
	opts := []option.RequestOption{
		option.WithBaseURL(strings.TrimSuffix(cfg.BaseURL, "/") + "/"),
		option.WithHTTPClient(hosted.NewDocumentClient(cfg.Base, cfg.Limits)),
		option.WithMaxRetries(0),
	}
	if cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(cfg.APIKey))
	}
	e.service = sdk.NewEmbeddingService(opts...)
	return e, nil
}

// Name is "openai:" and the server's name.
func (e *Embedder) Name() string { return Vendor + ":" + e.cfg.Model }

// Ready returns why no call can be made: KindUnauthenticated without a key.
func (e *Embedder) Ready() error {
	if e.cfg.APIKey == "" && e.official {
		return e.end.NoKey()
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
	var body []byte
	var resp *http.Response
	_, err := e.service.New(ctx, sdk.EmbeddingNewParams{Model: e.cfg.Model, Input: sdk.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts}},
		option.WithResponseBodyInto(&body), option.WithResponseInto(&resp))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && resp != nil && resp.StatusCode >= http.StatusMultipleChoices:
		return nil, e.status(resp, err)
	case err != nil:
		return nil, e.end.Failure(ctx, err)
	}
	vectors, err := readVectors(body, len(texts))
	if err != nil {
		return nil, e.end.Failure(ctx, err)
	}
	return vectors, nil
}
