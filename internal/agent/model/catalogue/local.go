package catalogue

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/agent/model/openai"
	"hortus.dev/internal/agent/model/retry"
	"hortus.dev/internal/platform/config"
	"hortus.dev/internal/platform/price"
)

const (
	// findTime bounds the search for local servers. They are on the loopback interface and answer lists.
	findTime = 500 * time.Millisecond
	// maxList bounds an answer of a server, and maxAsked the models of a server that are looked at.
	maxList  = 1 << 20
	maxAsked = 16
)

// server is a program that serves models on this machine, with OpenAI's chat completions API.
type server struct {
	name, title string
	// host is the variable with another address of the loopback interface, HOST:PORT.
	host, address string
	// models returns its models that can call tools, the one to use first; nil if it is not this program.
	models func(context.Context, ask) []string
}

// ask sends a request to a server, with a body by POST, and decodes the answer.
type ask func(ctx context.Context, path string, body, into any) bool

var servers = []server{
	{"ollama", "Ollama", "OLLAMA_HOST", "127.0.0.1:11434", ollamaModels},
	{"lmstudio", "LM Studio", config.OwnPrefix + "LMSTUDIO_HOST", "127.0.0.1:1234", lmstudioModels},
	{"llamacpp", "llama.cpp", config.OwnPrefix + "LLAMACPP_HOST", "127.0.0.1:8080", llamacppModels},
	{"vllm", "vLLM", config.OwnPrefix + "VLLM_HOST", "127.0.0.1:8000", vllmModels},
}

// ollamaModels reads Ollama's list, the model that was changed last first, and what each can do.
func ollamaModels(ctx context.Context, ask ask) []string {
	var list struct {
		Models []struct{ Name, Digest string }
	}
	if !ask(ctx, "/api/tags", nil, &list) {
		return nil
	}
	all := list.Models[:min(len(list.Models), maxAsked)]
	able := make([]bool, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		if m.Digest == "" {
			return nil
		}
		wg.Go(func() {
			var shown struct{ Capabilities []string }
			able[i] = ask(ctx, "/api/show", map[string]string{"model": m.Name}, &shown) && slices.Contains(shown.Capabilities, "tools")
		})
	}
	wg.Wait()
	var out []string
	for i, m := range all {
		if able[i] {
			out = append(out, m.Name)
		}
	}
	return out
}

// lmstudioModels reads LM Studio's own list, which says what a model can do; one that is loaded comes first.
func lmstudioModels(ctx context.Context, ask ask) []string {
	var list struct {
		Data []struct {
			ID, Type, State string
			Capabilities    []string
		}
	}
	if !ask(ctx, "/api/v0/models", nil, &list) {
		return nil
	}
	var loaded, others []string
	for _, m := range list.Data {
		switch {
		case m.Type != "llm" && m.Type != "vlm" || !slices.Contains(m.Capabilities, "tool_use"):
		case m.State == "loaded":
			loaded = append(loaded, m.ID)
		default:
			others = append(others, m.ID)
		}
	}
	return append(loaded, others...)
}

// llamacppModels: whether the model calls tools depends on its chat template.
func llamacppModels(ctx context.Context, ask ask) []string {
	names := ownedBy(ctx, ask, "llamacpp")
	var props struct {
		Template struct {
			Tools *bool `json:"supports_tools"`
		} `json:"chat_template_caps"`
	}
	if len(names) > 0 && ask(ctx, "/props", nil, &props) && props.Template.Tools != nil && !*props.Template.Tools {
		return nil
	}
	return names
}

func vllmModels(ctx context.Context, ask ask) []string { return ownedBy(ctx, ask, "vllm") }

// ownedBy reads OpenAI's list of models; nil unless the server names itself in it.
func ownedBy(ctx context.Context, ask ask, owner string) (out []string) {
	var list struct {
		Object string
		Data   []struct {
			ID      string
			OwnedBy string `json:"owned_by"`
		}
	}
	if !ask(ctx, "/v1/models", nil, &list) || list.Object != "list" {
		return nil
	}
	for _, m := range list.Data {
		if m.OwnedBy == owner {
			out = append(out, m.ID)
		}
	}
	return out
}

// addressOf returns where a server of this machine is; "" if a variable names another machine.
func (c *Catalogue) addressOf(s server) string {
	host := strings.TrimSuffix(strings.TrimPrefix(c.env(s.host), "http://"), "/")
	if host == "" {
		return s.address
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		_, port, _ = net.SplitHostPort(s.address)
		name = host
	}
	if name == "localhost" || name == "0.0.0.0" || name == "" { // a server's address to listen at
		name = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || !ip.IsLoopback() {
		return ""
	}
	return net.JoinHostPort(ip.String(), port)
}

// find returns the model of a server to use, and whether it was found.
func (s server) find(ctx context.Context, address string) (string, bool) {
	client := &http.Client{
		// Nothing but the server itself is asked, whatever proxy is set and wherever it redirects to.
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	names := s.models(ctx, func(ctx context.Context, path string, body, into any) bool {
		method, send := http.MethodGet, io.Reader(nil)
		if body != nil {
			b, err := json.Marshal(body)
			if err != nil {
				return false
			}
			method, send = http.MethodPost, bytes.NewReader(b)
		}
		req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, send)
		if err != nil {
			return false
		}
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK && json.NewDecoder(io.LimitReader(resp.Body, maxList)).Decode(into) == nil
	})
	names = slices.DeleteFunc(names, func(name string) bool {
		return strings.TrimSpace(name) == "" || api.CheckName("model", s.name+":"+name) != nil
	})
	if len(names) == 0 {
		return "", false
	}
	return names[0], true
}

// local returns what serves models on this machine, in the order of preference. It asks all of them at once.
func (c *Catalogue) local(ctx context.Context) (out []admin.ModelReport) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	found := make([]string, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		if address := c.addressOf(s); address != "" {
			wg.Go(func() { found[i], _ = s.find(ctx, address) })
		}
	}
	wg.Wait()
	for i, s := range servers {
		if found[i] != "" {
			at := "http://" + c.addressOf(s)
			out = append(out, admin.ModelReport{Name: s.name + ":" + found[i], Model: found[i], OK: true, BaseURL: at, Source: "at " + at + " (" + s.title + ")"})
		}
	}
	return out
}

// AtHand returns the model to use if none is configured: a hosted one with a key, or else one that a server of this
// machine has. ok is false if there is none.
func (c *Catalogue) AtHand(ctx context.Context) (r admin.ModelReport, ok bool) {
	for _, v := range []vendor{anthropicVendor, openaiVendor} {
		m, err := c.find(v.name)
		if err != nil {
			continue
		}
		r := admin.ModelReport{Name: v.name, Model: m.Name(), OK: true}
		own := config.OwnPrefix + v.key
		switch r.BaseURL, _ = c.baseURL(v); {
		case c.cfg.KeySecrets[v.name] != "":
			r.Source = "key in the secret " + c.cfg.KeySecrets[v.name]
		case strings.TrimSpace(c.cfg.Getenv(own)) != "":
			r.Source = "key in " + own
		case c.env(v.key) != "":
			r.Source = "key in " + v.key
		default:
			continue // a server that needs no key, which may be there for something else
		}
		return r, true
	}
	if all := c.local(ctx); len(all) > 0 {
		return all[0], true
	}
	return r, false
}

// served returns the model of a server of this machine.
func (c *Catalogue) served(name, which string) (model.Model, bool, error) {
	i := slices.IndexFunc(servers, func(s server) bool { return s.name == name })
	if i < 0 {
		return nil, false, nil
	}
	address := c.addressOf(servers[i])
	if address == "" {
		return nil, true, api.Errorf(api.KindInvalid, "%s is not an address of this machine", servers[i].host).
			WithHint("For a server on another machine: set OPENAI_BASE_URL and use --model openai:%s", which)
	}
	m, err := openai.New(openai.Config{
		Vendor: name, Model: which, BaseURL: "http://" + address + "/v1", API: openai.Chat, Price: &price.Price{},
		KeyHint: "The server asks for a key: set OPENAI_BASE_URL and OPENAI_API_KEY, and use --model openai:" + which, Base: c.cfg.Transport,
	})
	if err != nil {
		return nil, true, err
	}
	return retry.New(m, retry.Config{}), true, nil
}
