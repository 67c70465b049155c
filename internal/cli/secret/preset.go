package secret

import (
	"net/url"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// preset has what programs that use the API of a vendor of models send.
type preset struct {
	model secrets.Model
	// base is the address that programs are given, and variable where they read the key from.
	base, variable string
	places         []secrets.Place
	paths          []string // behind the base
}

// presetOf returns a preset by its name.
func presetOf(name string) (preset, bool) {
	header := func(name string) secrets.Place { return secrets.Place{Kind: secrets.InHeader, Name: name} }
	switch secrets.Model(name) {
	case secrets.Anthropic:
		return preset{secrets.Anthropic, "https://api.anthropic.com", "ANTHROPIC_API_KEY", []secrets.Place{header("X-Api-Key")},
			[]string{"/v1/messages", "/v1/messages/count_tokens", "/v1/models", "/v1/models/*"}}, true
	case secrets.OpenAI:
		return preset{secrets.OpenAI, "https://api.openai.com/v1", "OPENAI_API_KEY", []secrets.Place{header("Authorization")},
			[]string{"/chat/completions", "/responses", "/responses/compact", "/responses/input_tokens", "/embeddings", "/moderations", "/models", "/models/*"}}, true
	case secrets.Gemini:
		return preset{secrets.Gemini, "https://generativelanguage.googleapis.com", "GEMINI_API_KEY",
			[]secrets.Place{header("X-Goog-Api-Key"), {Kind: secrets.InQuery, Name: "key"}},
			[]string{"/v1beta/models", "/v1beta/models/*", "/v1/models", "/v1/models/*"}}, true
	}
	return preset{}, false
}

// presetBindings returns the bindings of --preset.
func (c *setCmd) presetBindings() ([]secrets.Binding, error) {
	p, ok := presetOf(c.Preset)
	switch {
	case !ok && c.Preset != "":
		return nil, api.Errorf(api.KindInvalid, "--preset %.40q is none of %s, %s and %s", c.Preset, secrets.Anthropic, secrets.OpenAI, secrets.Gemini)
	case !ok:
		return nil, api.Errorf(api.KindInvalid, "--base-url is about --preset, which is missing")
	case c.Daemon || c.placed() || c.rights() || len(c.To)+len(c.Git) > 0:
		return nil, api.Errorf(api.KindInvalid, "--preset says in which requests the secret is used; the other flags that do cannot be given with it").
			WithHint("for a server that speaks the same API: --base-url; otherwise leave --preset out: --to 'https://llm.example.org/** model=%s'", p.model)
	case c.Sign != "":
		return nil, api.Errorf(api.KindInvalid, "--sign cannot be given with --preset: the key itself is sent")
	}
	base := p.base
	if c.BaseURL != "" {
		base = strings.TrimRight(c.BaseURL, "/")
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Contains(u.Path, "*") {
		// It may have a credential: it is not repeated.
		return nil, api.Errorf(api.KindInvalid, "--base-url is not the address of a server").WithHint("for example %s", p.base)
	}
	port := 0
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil {
			return nil, api.Errorf(api.KindInvalid, "--base-url has no valid port")
		}
	}
	var all []secrets.Binding
	for _, in := range p.places {
		b := secrets.Binding{Scheme: u.Scheme, Host: u.Hostname(), Port: port, Methods: []string{"GET", "POST"}, In: in, Model: p.model}
		for _, path := range p.paths {
			b.Paths = append(b.Paths, u.EscapedPath()+path)
		}
		all = append(all, b)
	}
	return all, nil
}

// presetNote says how programs get the secret.
func (c *setCmd) presetNote() string {
	p, ok := presetOf(c.Preset)
	if !ok {
		return ""
	}
	grant := c.Name
	if (api.SecretGrant{Name: c.Name}).Variable() != p.variable {
		grant = p.variable + "=" + c.Name
	}
	return "programs read it from " + p.variable + ": hortus run --secret " + grant + " ..."
}
