package secret

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// ParseBinding reads a binding:
//
//	[METHODS] [SCHEME://]HOST[:PORT][PATHS] [PLACE] [model=API]
//	git [SCHEME://]HOST[:PORT]/REPOSITORY [fetch] [push=REFS]... [force] [delete]
//
// Methods are in upper case, separated by commas. The scheme is https (the default) or http. Paths
// begin with "/" and are separated by "|"; "*" is any text without "/", "**" any text. No path is
// every path. The place is header=NAME, query=NAME or basic; the one that is given here is used
// if there is none. For git it is always basic. API is that of models which the server speaks.
func ParseBinding(text string, usual secrets.Place) (secrets.Binding, error) {
	words := strings.Fields(text)
	b := secrets.Binding{In: usual}
	isGit := len(words) > 0 && words[0] == "git"
	switch {
	case isGit:
		b.Git, b.In = &secrets.Git{}, secrets.Place{Kind: secrets.InBasic}
		words = words[1:]
	case len(words) > 0 && areMethods(words[0]):
		b.Methods = strings.Split(words[0], ",")
		words = words[1:]
	}
	if len(words) == 0 {
		return b, api.Errorf(api.KindInvalid, "the binding %.80q has no address", text).
			WithHint("write for example https://api.example.org/v1/** or GET,POST https://api.example.org/v1/**")
	}
	if err := parseAddress(words[0], &b); err != nil {
		return b, err
	}
	for _, word := range words[1:] {
		name, value, has := strings.Cut(word, "=")
		switch {
		case isGit && word == "fetch":
			b.Git.Fetch = true
		case isGit && name == "push" && value != "":
			b.Git.Push = append(b.Git.Push, value)
		case isGit && word == "force":
			b.Git.Force = true
		case isGit && word == "delete":
			b.Git.Delete = true
		case !isGit && has && value != "" && (name == string(secrets.InHeader) || name == string(secrets.InQuery)):
			b.In = secrets.Place{Kind: secrets.PlaceKind(name), Name: value}
		case !isGit && name == "model" && value != "":
			b.Model = secrets.Model(value)
		case !isGit && word == string(secrets.InBasic):
			b.In = secrets.Place{Kind: secrets.InBasic}
		case isGit:
			return b, api.Errorf(api.KindInvalid, "%.80q in the binding %.80q is not fetch, push=REFS, force or delete", word, text)
		default:
			return b, api.Errorf(api.KindInvalid, "%.80q in the binding %.80q is not header=NAME, query=NAME, basic or model=API", word, text).
				WithHint("methods are in upper case and come before the address; a space in a path is %%20")
		}
	}
	return b, nil
}

// areMethods reports whether a word is methods and not an address.
func areMethods(word string) bool {
	return strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ,") == ""
}

// parseAddress reads the scheme, the host, the port and the paths of a binding.
func parseAddress(text string, b *secrets.Binding) error {
	rest := text
	if scheme, after, ok := strings.Cut(text, "://"); ok {
		if scheme = strings.ToLower(scheme); scheme != "https" && scheme != "http" {
			return api.Errorf(api.KindInvalid, "the address %.80q begins with neither https:// nor http://", text)
		}
		b.Scheme, rest = scheme, after
	}
	host, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if strings.ContainsAny(path, "?#") || strings.Contains(host, "@") {
		// Either may be a credential: it is not repeated.
		return api.Errorf(api.KindInvalid, "an address of a binding has a user, a query or a fragment").
			WithHint("write the host and the path only; a value goes to standard input")
	}
	if strings.Contains(host, ":") {
		name, port, err := net.SplitHostPort(host)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || n == 0 {
			return api.Errorf(api.KindInvalid, "the address %.80q has no valid port", text)
		}
		host, b.Port = name, int(n)
	}
	b.Host = host
	switch {
	case b.Git != nil:
		if b.Git.Repository = strings.TrimSuffix(strings.TrimRight(path, "/"), ".git"); b.Git.Repository == "" {
			return api.Errorf(api.KindInvalid, "the address %.80q has no path of a repository", text)
		}
	case path == "/":
		return api.Errorf(api.KindInvalid, "the path of %.80q matches the path / alone", text).
			WithHint("leave the / out for every path, or write for example %s**", text)
	case path != "":
		b.Paths = strings.Split(path, "|")
	}
	return nil
}

// FormatBinding writes a binding in the form that ParseBinding reads.
func FormatBinding(b secrets.Binding) string {
	b = b.WithDefaults()
	var words []string
	if len(b.Methods) > 0 {
		words = append(words, strings.Join(b.Methods, ","))
	}
	address := b.Scheme + "://" + b.Host
	if b.Scheme == "https" && b.Port != 443 || b.Scheme == "http" && b.Port != 80 {
		address += ":" + strconv.Itoa(b.Port)
	}
	if g := b.Git; g != nil {
		words = append([]string{"git"}, address+g.Repository)
		if g.Fetch {
			words = append(words, "fetch")
		}
		for _, refs := range g.Push {
			words = append(words, "push="+refs)
		}
		if g.Force {
			words = append(words, "force")
		}
		if g.Delete {
			words = append(words, "delete")
		}
		return strings.Join(words, " ")
	}
	words = append(words, address+strings.Join(b.Paths, "|"))
	if b.In.Kind == secrets.InBasic {
		words = append(words, "basic")
	} else {
		words = append(words, string(b.In.Kind)+"="+b.In.Name)
	}
	if b.Model != "" {
		words = append(words, "model="+string(b.Model))
	}
	return strings.Join(words, " ")
}

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
