package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/hosted"
	"hortus.dev/internal/platform/price"
)

// Vendor is what every message begins with, and the name of the default model.
const Vendor = "openai"

// Defaults of a [Config].
const (
	DefaultModel   = "gpt-6.1-sol"
	DefaultBaseURL = "https://api.openai.com/v1"
)

// API is one of the two ways to ask.
type API string

const (
	// Auto is Responses at OpenAI and chat completions everywhere else, since
	// most compatible servers know no other.
	Auto      API = ""
	Chat      API = "chat"
	Responses API = "responses"
)

// Config is what a model is made from. The zero value is the default model
// without a key.
type Config struct {
	// Vendor begins the name of the model and the messages of its errors; empty means [Vendor].
	Vendor string
	// Model is the server's name of the model; empty means DefaultModel.
	Model string
	// BaseURL is where the API is, with its version; empty means DefaultBaseURL.
	// Only there a key is a must.
	BaseURL string
	APIKey  string
	// KeyHint tells a person how to set the key, in a sentence.
	KeyHint string
	// API chooses the way to ask.
	API API
	// MaxTokens bounds an answer where the request does not; 0 leaves it to the
	// server.
	MaxTokens int
	// Price, when not nil, takes the place of the table's.
	Price *price.Price
	// Limits bound an answer as it comes.
	Limits hosted.Limits
	// Base carries the HTTP calls; nil means the standard library's transport.
	Base http.RoundTripper
}

// Model is a model behind one of OpenAI's APIs.
type Model struct {
	cfg      Config
	client   *hosted.Client
	price    *price.Price
	official bool
}

var _ model.Model = (*Model)(nil)

// New makes a model. It calls nobody. KindInvalid for an API that there is not.
func New(cfg Config) (*Model, error) {
	if cfg.Vendor == "" {
		cfg.Vendor = Vendor
	}
	if cfg.Model == "" {
		cfg.Model = DefaultModel
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	m := &Model{price: cfg.Price, official: isOfficial(cfg.BaseURL), client: newClient(cfg, hosted.NewClient(cfg.Base, cfg.Limits))}
	switch cfg.API {
	case Chat, Responses:
	case Auto:
		if cfg.API = Chat; m.official {
			cfg.API = Responses
		}
	default:
		return nil, api.Errorf(api.KindInvalid, "openai: unknown API %q", cfg.API).WithHint("Use %s or %s.", Chat, Responses)
	}
	m.cfg = cfg
	if m.price == nil {
		m.price = price.OpenAI().Find(cfg.Model)
	}
	return m, nil
}

func newClient(cfg Config, over *http.Client) *hosted.Client {
	c := &hosted.Client{
		Endpoint: hosted.Endpoint{Vendor: cfg.Vendor, Model: cfg.Model, BaseURL: cfg.BaseURL, Key: cfg.APIKey, KeyHint: cfg.KeyHint},
		Header:   http.Header{}, HTTP: over,
	}
	if cfg.APIKey != "" {
		c.Header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	return c
}

// isOfficial reports whether a URL is OpenAI's own.
func isOfficial(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Hostname() == "api.openai.com"
}

// Name is "openai:" and the server's name.
func (m *Model) Name() string { return m.cfg.Vendor + ":" + m.cfg.Model }

// MaxTemperature implements [model.Tempered]: of OpenAI's own models, those that reason take none.
func (m *Model) MaxTemperature() (float64, bool) {
	if m.official && !strings.HasPrefix(m.cfg.Model, "gpt-4") && !strings.HasPrefix(m.cfg.Model, "gpt-3.5") {
		return 0, false
	}
	return 2, true
}

// ReadsImages reports whether the model is one of OpenAI's that reads images. Of other servers' models nothing is known.
func (m *Model) ReadsImages() bool {
	for _, begin := range []string{"gpt-4o", "gpt-4.1", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(m.cfg.Model, begin) {
			return true
		}
	}
	return false
}

// dataURL is an image as the APIs take it.
func dataURL(x model.Image) string {
	return "data:" + x.Type + ";base64," + base64.StdEncoding.EncodeToString(x.Data)
}

// Ready returns why no call can be made: KindUnauthenticated without a key.
func (m *Model) Ready() error {
	if m.cfg.APIKey == "" && m.official {
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
	a := &answer{end: m.client.Endpoint, deltas: deltas}
	var path string
	var body any
	var err error
	var take func([]byte, *answer) error
	if m.cfg.API == Responses {
		path, take = "/responses", takeResponses
		body, err = m.responsesBody(req)
	} else {
		path, take = "/chat/completions", takeChat
		body, err = m.chatBody(req)
	}
	if err != nil {
		return model.Response{}, err
	}
	events, err := m.client.Stream(ctx, path, body)
	if err != nil {
		return model.Response{Usage: price.Tokens{}.Usage(m.price)}, err // a call, without tokens
	}
	for !a.full && events.Next() {
		data := events.Data()
		if string(data) == "[DONE]" {
			continue
		}
		var failed struct {
			Error json.RawMessage `json:"error"`
		}
		if !events.Decode(&failed) {
			break
		}
		if len(failed.Error) > 0 && string(failed.Error) != "null" {
			events.Fail()
			break
		}
		if err = take(data, a); err != nil {
			break
		}
	}
	if cerr := events.Close(); cerr != nil {
		err = cerr
	} else if err != nil {
		err = m.client.Endpoint.Failure(ctx, err)
	}
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

// result is what a tool said. The APIs know no mark for a call that failed, so the
// text says it.
func result(t model.Message) string {
	if t.Failed {
		return "The call failed.\n" + t.Text
	}
	return t.Text
}

func (m *Model) maxTokens(req model.Request) int {
	if req.MaxTokens > 0 {
		return req.MaxTokens
	}
	return m.cfg.MaxTokens
}
