package catalogue

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/anthropic"
	"hortus.dev/internal/agent/model/offline"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/internal/platform/config"
)

// Config is what a catalogue reads and calls with.
type Config struct {
	// Getenv reads the variables with keys and base URLs; nil means that none is set.
	Getenv func(string) string
	// KeySecrets names the secrets with keys by vendor. Such a key takes precedence over the
	// variables.
	KeySecrets map[string]string
	// Key returns the value of a secret of the operator. It is called at each call of a model.
	// nil means that there are no secrets.
	Key func(ctx context.Context, name, purpose, address string) (string, error)
	// Transport carries the calls of all hosted models; nil means http.DefaultTransport.
	Transport http.RoundTripper
}

// Catalogue finds models by name: "offline", "anthropic", "openai", a vendor with one of
// its models ("anthropic:claude-opus-5-5"), "ollama:MODEL" and the like for
// servers of this machine, or "replay:" with the path of a recording. It may be used from several goroutines.
type Catalogue struct {
	cfg     Config
	offline *offline.Model
}

// New creates a catalogue. Hosted models are created when Open asks for them.
func New(cfg Config) (*Catalogue, error) {
	o, err := offline.New()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the offline model's catalogue: %w", err)
	}
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	if cfg.Key == nil {
		cfg.Key = func(context.Context, string, string, string) (string, error) {
			return "", api.Errorf(api.KindUnsupported, "this daemon keeps no secrets")
		}
	}
	if cfg.Transport == nil {
		cfg.Transport = http.DefaultTransport // one for all calls
	}
	return &Catalogue{cfg, o}, nil
}

// vendor names the variables with the settings of a hosted model.
type vendor struct {
	name         string
	key, baseURL string
}

var (
	anthropicVendor = vendor{anthropic.Vendor, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"}
	openaiVendor    = vendor{openai.Vendor, "OPENAI_API_KEY", "OPENAI_BASE_URL"}
)

// openaiAPI is the variable that chooses between the Responses and the chat completions API.
const openaiAPI = "HORTUS_OPENAI_API"

// env reads a variable; the one with OwnPrefix takes precedence.
func (c *Catalogue) env(name string) string {
	if v := strings.TrimSpace(c.cfg.Getenv(config.OwnPrefix + name)); v != "" {
		return v
	}
	return strings.TrimSpace(c.cfg.Getenv(name))
}

// keyHint returns what to do about a missing or rejected key.
func (c *Catalogue) keyHint(v vendor) string {
	if name := c.cfg.KeySecrets[v.name]; name != "" {
		return "Set the secret with the key: hortus secret set " + name + " --daemon"
	}
	return "Set " + v.key + " and run it again."
}

// baseURL returns the configured base URL of a vendor, or "" for the vendor's default.
func (c *Catalogue) baseURL(v vendor) (string, error) {
	raw := c.env(v.baseURL)
	if raw == "" {
		return "", nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", api.Errorf(api.KindInvalid, "%s is not a valid base URL", v.baseURL).
			WithHint("Use an http or https URL without a user name, a password or a query, for example https://host/v1.")
	}
	return strings.TrimSuffix(raw, "/"), nil
}

// find returns a model that is not a recording. The error is KindInvalid for an unknown
// name and KindUnauthenticated if the key of the model is missing. A key that is a secret is
// not read here but at each call.
func (c *Catalogue) find(name string) (model.Model, error) {
	vendor, which, named := strings.Cut(name, ":")
	switch {
	case named && strings.TrimSpace(which) == "":
	case vendor == offline.Name && !named:
		return c.offline, nil
	case vendor == anthropic.Vendor:
		return c.hosted(anthropicVendor, which)
	case vendor == openai.Vendor:
		return c.hosted(openaiVendor, which)
	case named:
		if m, known, err := c.served(vendor, which); known {
			return m, err
		}
	}
	return nil, api.Errorf(api.KindInvalid, "unknown model %q", name).WithHint(
		"available: offline, anthropic, openai, anthropic:MODEL and openai:MODEL with the vendor's model name, and of servers on this machine ollama:MODEL, lmstudio:MODEL, llamacpp:MODEL and vllm:MODEL")
}

// Reports returns for each model whether it can be used and, if not, why.
func (c *Catalogue) Reports(ctx context.Context) []admin.ModelReport {
	out := []admin.ModelReport{{Name: offline.Name, Default: true, OK: true, Model: offline.Name}}
	for _, v := range []vendor{anthropicVendor, openaiVendor} {
		r := admin.ModelReport{Name: v.name}
		r.BaseURL, _ = c.baseURL(v) // find returns the error of an invalid one
		m, err := c.find(v.name)
		if name := c.cfg.KeySecrets[v.name]; err == nil && name != "" {
			_, err = c.key(ctx, v, name, "")
		}
		if err == nil {
			r.OK, r.Model = true, m.Name()
		} else {
			r.Reason, r.Fix = err.Error(), api.HintOf(err)
		}
		out = append(out, r)
	}
	return append(out, c.local(ctx)...)
}

// Fingerprint identifies the values of the variables of hosted models.
func Fingerprint(getenv func(string) string) string {
	names := []string{openaiAPI, config.OwnPrefix + "EMBEDDING_MODEL", config.OwnPrefix + "EMBEDDING_SIMILARITY"}
	for _, s := range servers {
		names = append(names, s.host)
	}
	for _, v := range []vendor{anthropicVendor, openaiVendor} {
		names = append(names, v.key, v.baseURL, config.OwnPrefix+v.key, config.OwnPrefix+v.baseURL, config.OwnPrefix+strings.ToUpper(v.name)+"_KEY_SECRET")
	}
	return config.Fingerprint(getenv, names)
}
