package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/anthropic"
	"hortus.dev/internal/agent/model/offline"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/internal/agent/model/retry"
)

// catalogue finds models by their names: "offline", "anthropic", "openai", or a
// vendor with one of its models, "anthropic:claude-opus-5-5".
type catalogue struct {
	offline *offline.Model
	getenv  func(string) string
	// base carries the calls of all hosted models.
	base http.RoundTripper
}

// openModels makes the catalogue of what is compiled in. Hosted models are made when
// they are asked for, from the variables of this process.
func (s *System) openModels() error {
	o, err := offline.New()
	if err != nil {
		return api.Errorf(api.KindInternal, "the offline model's catalogue: %w", err)
	}
	getenv := s.cfg.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	s.models = catalogue{offline: o, getenv: getenv, base: http.DefaultTransport}
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		s.models.base = t
		s.onClose(func(context.Context) error { t.CloseIdleConnections(); return nil })
	}
	return nil
}

// vendor is where a hosted model's settings stand.
type vendor struct {
	name         string
	key, baseURL string // variables
}

var (
	anthropicVendor = vendor{anthropic.Vendor, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"}
	openaiVendor    = vendor{openai.Vendor, "OPENAI_API_KEY", "OPENAI_BASE_URL"}
)

// openaiAPI chooses between the Responses and the chat completions API.
const openaiAPI = "HORTUS_OPENAI_API"

// own is the name of a variable that is for Hortus alone and goes before the
// vendor's.
func own(name string) string { return "HORTUS_" + name }

// env reads a variable, Hortus's own first.
func (c catalogue) env(name string) string {
	if v := strings.TrimSpace(c.getenv(own(name))); v != "" {
		return v
	}
	return strings.TrimSpace(c.getenv(name))
}

// keyHint is what to do about a key that is missing or refused.
func (v vendor) keyHint() string {
	return "Set " + v.key + " and run it again."
}

// baseOf is the base URL of a vendor, or "" for the vendor's own.
func (c catalogue) baseOf(v vendor) (string, error) {
	raw := c.env(v.baseURL)
	if raw == "" {
		return "", nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", api.Errorf(api.KindInvalid, "%s is not a base URL", v.baseURL).
			WithHint("It is an http or https address without a name, a password or a query, for example https://host/v1.")
	}
	return strings.TrimSuffix(raw, "/"), nil
}

// find gives the model of a name. KindInvalid for a name that there is not,
// KindUnauthenticated for a model whose key is missing.
func (c catalogue) find(name string) (model.Model, error) {
	vendor, which, named := strings.Cut(name, ":")
	switch {
	case named && strings.TrimSpace(which) == "":
	case vendor == offline.Name && !named:
		return c.offline, nil
	case vendor == anthropic.Vendor:
		return c.anthropic(which)
	case vendor == openai.Vendor:
		return c.openai(which)
	}
	return nil, api.Errorf(api.KindInvalid, "unknown model %q", name).WithHint(
		"this build has: offline, anthropic, openai; and anthropic:MODEL and openai:MODEL with the vendor's name of the model")
}

func (c catalogue) anthropic(which string) (model.Model, error) {
	base, err := c.baseOf(anthropicVendor)
	if err != nil {
		return nil, err
	}
	m := anthropic.New(anthropic.Config{
		// The API's paths begin with the version; an address with it is meant
		// the same.
		Model: which, BaseURL: strings.TrimSuffix(base, "/v1"), APIKey: c.env(anthropicVendor.key),
		KeyHint: anthropicVendor.keyHint(), Base: c.base,
	})
	if err := m.Ready(); err != nil {
		return nil, err
	}
	return retry.New(m, retry.Config{}), nil
}

func (c catalogue) openai(which string) (model.Model, error) {
	base, err := c.baseOf(openaiVendor)
	if err != nil {
		return nil, err
	}
	m, err := openai.New(openai.Config{
		Model: which, BaseURL: base, APIKey: c.env(openaiVendor.key), API: openai.API(strings.TrimSpace(c.getenv(openaiAPI))),
		KeyHint: openaiVendor.keyHint(), Base: c.base,
	})
	if err != nil {
		return nil, err
	}
	if err := m.Ready(); err != nil {
		return nil, err
	}
	return retry.New(m, retry.Config{}), nil
}

// reports says of each model whether it can be asked, and what it lacks.
func (c catalogue) reports() []api.ModelReport {
	out := []api.ModelReport{{Name: offline.Name, Default: true, OK: true, Model: offline.Name}}
	for _, v := range []vendor{anthropicVendor, openaiVendor} {
		r := api.ModelReport{Name: v.name}
		r.BaseURL, _ = c.baseOf(v) // a bad one is find's error
		m, err := c.find(v.name)
		if err == nil {
			r.OK, r.Model = true, m.Name()
		} else {
			r.Reason, r.Fix = err.Error(), api.HintOf(err)
		}
		out = append(out, r)
	}
	return out
}

// modelSettings is a mark of the variables that hosted models are made from.
func modelSettings(getenv func(string) string) string {
	names := []string{openaiAPI}
	for _, v := range []vendor{anthropicVendor, openaiVendor} {
		names = append(names, v.key, v.baseURL, own(v.key), own(v.baseURL))
	}
	return mark(getenv, names)
}

// mark is equal for equal values of some variables, and empty without any. It
// tells nothing of what they hold.
func mark(getenv func(string) string, names []string) string {
	h, any := sha256.New(), false
	for _, name := range names {
		value := getenv(name)
		any = any || value != ""
		h.Write([]byte(name + "\x00" + value + "\x00"))
	}
	if !any {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
