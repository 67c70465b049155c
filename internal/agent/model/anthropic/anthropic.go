package anthropic

import (
	"context"
	"net/http"
	"strings"

	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/hosted"
	"hortus.dev/internal/platform/price"
)

// Vendor is what every message begins with, and the name of the default model.
const Vendor = "anthropic"

// Defaults of a [Config].
const (
	DefaultModel   = "claude-sonnet-5-5"
	DefaultBaseURL = "https://api.anthropic.com"
	// version is the version of the API that the requests are written for.
	version = "2023-06-01"
	// DefaultMaxTokens holds a program of several files and what the model
	// thinks before it; the API wants a bound with every call.
	DefaultMaxTokens = 32_000
)

// Config is what a model is made from. The zero value is the default model
// without a key.
type Config struct {
	// Model is Anthropic's name of the model; empty means DefaultModel.
	Model string
	// BaseURL is where the API is; empty means DefaultBaseURL. Only there a key
	// is a must.
	BaseURL string
	APIKey  string
	// KeyHint tells a person how to set the key, in a sentence.
	KeyHint string
	// MaxTokens bounds an answer where the request does not; 0 means
	// DefaultMaxTokens.
	MaxTokens int
	// Price, when not nil, takes the place of the table's.
	Price *price.Price
	// Limits bound an answer as it comes.
	Limits hosted.Limits
	// Base carries the HTTP calls; nil means the standard library's transport.
	Base http.RoundTripper
}

// Model is one of Anthropic's models.
type Model struct {
	cfg    Config
	client *hosted.Client
	price  *price.Price
}

var _ model.Model = (*Model)(nil)

// New makes a model. It calls nobody.
func New(cfg Config) *Model {
	if cfg.Model == "" {
		cfg.Model = DefaultModel
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if cfg.MaxTokens == 0 {
		cfg.MaxTokens = DefaultMaxTokens
	}
	m := &Model{cfg: cfg, price: cfg.Price, client: &hosted.Client{
		Endpoint: hosted.Endpoint{Vendor: Vendor, Model: cfg.Model, BaseURL: cfg.BaseURL, Key: cfg.APIKey, KeyHint: cfg.KeyHint},
		Header:   http.Header{"Anthropic-Version": {version}},
		HTTP:     hosted.NewClient(cfg.Base, cfg.Limits),
	}}
	if cfg.APIKey != "" {
		m.client.Header.Set("X-Api-Key", cfg.APIKey)
	}
	if m.price == nil {
		m.price = price.Anthropic().Find(cfg.Model)
	}
	return m
}

// Name is "anthropic:" and Anthropic's name.
func (m *Model) Name() string { return Vendor + ":" + m.cfg.Model }

// MaxTemperature implements [model.Tempered]: newer models refuse every temperature but their own.
func (m *Model) MaxTemperature() (float64, bool) {
	for _, prefix := range []string{"claude-3", "claude-haiku-4", "claude-sonnet-4", "claude-opus-4-0", "claude-opus-4-1", "claude-opus-4-2025", "claude-opus-4-5"} {
		if strings.HasPrefix(m.cfg.Model, prefix) {
			return 1, true
		}
	}
	return 0, false
}

// ReadsImages reports whether the model reads images: all Claude models from the third generation on do.
func (m *Model) ReadsImages() bool {
	name := m.cfg.Model
	return strings.HasPrefix(name, "claude-") && !strings.HasPrefix(name, "claude-2") && !strings.HasPrefix(name, "claude-instant")
}

// Ready returns why no call can be made: KindUnauthenticated without a key.
func (m *Model) Ready() error {
	if m.cfg.APIKey == "" && m.cfg.BaseURL == DefaultBaseURL {
		return m.client.Endpoint.NoKey()
	}
	return nil
}

// Generate implements [model.Model]. An answer that fails half way gives its
// usage beside the error.
func (m *Model) Generate(ctx context.Context, req model.Request, deltas func(model.Delta)) (model.Response, error) {
	if err := m.Ready(); err != nil {
		return model.Response{}, err
	}
	body, err := m.body(req)
	if err != nil {
		return model.Response{}, err
	}
	events, err := m.client.Stream(ctx, "/v1/messages", body)
	if err != nil {
		return model.Response{Usage: price.Tokens{}.Usage(m.price)}, err // a call, without tokens
	}
	a := answer{end: m.client.Endpoint, deltas: deltas, output: outputName(req)}
	for !a.full && events.Next() {
		var ev event
		if !events.Decode(&ev) {
			break
		}
		if ev.Type == "error" {
			events.Fail()
			break
		}
		a.take(ev)
	}
	err = events.Close()
	resp := a.response()
	resp.Usage = a.tokens.Usage(m.price)
	switch {
	case a.full:
		return resp, nil
	case err != nil:
		return resp, err
	}
	return resp, a.problem()
}
