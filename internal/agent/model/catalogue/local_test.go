package catalogue

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestAtHand: what is used without a configured model, and what of a server is believed.
func TestAtHand(t *testing.T) {
	const (
		tags   = `{"models":[{"name":"embed:1","digest":"a"},{"name":"qwen3:8b","digest":"b"},{"name":"other","digest":"c"}]}`
		listed = `{"object":"list","data":[{"id":"qwen.gguf","owned_by":%q}]}`
	)
	show := func(body string) string {
		if strings.Contains(body, "embed:1") {
			return `{"capabilities":["embedding"]}`
		}
		return `{"capabilities":["completion","tools"]}`
	}
	for _, c := range []struct {
		name    string
		host    string // the variable with the address
		answers map[string]string
		vars    map[string]string
		want    string
		source  string
	}{
		{"Ollama's first model with tools", "OLLAMA_HOST", map[string]string{"/api/tags": tags}, nil, "ollama:qwen3:8b", "(Ollama)"},
		{"a list that is not Ollama's", "OLLAMA_HOST", map[string]string{"/api/tags": `{"models":[{"name":"qwen3:8b"}]}`}, nil, "", ""},
		{"a web server", "HORTUS_LLAMACPP_HOST", map[string]string{"/": "<html>"}, nil, "", ""},
		{"another API with a list", "HORTUS_LLAMACPP_HOST", map[string]string{"/v1/models": fmt.Sprintf(listed, "somebody")}, nil, "", ""},
		{"llama.cpp", "HORTUS_LLAMACPP_HOST", map[string]string{"/v1/models": fmt.Sprintf(listed, "llamacpp")}, nil, "llamacpp:qwen.gguf", "(llama.cpp)"},
		{"llama.cpp without tools", "HORTUS_LLAMACPP_HOST", map[string]string{"/v1/models": fmt.Sprintf(listed, "llamacpp"), "/props": `{"chat_template_caps":{"supports_tools":false}}`}, nil, "", ""},
		{"vLLM", "HORTUS_VLLM_HOST", map[string]string{"/v1/models": fmt.Sprintf(listed, "vllm")}, nil, "vllm:qwen.gguf", "(vLLM)"},
		{"LM Studio's loaded model", "HORTUS_LMSTUDIO_HOST", map[string]string{"/api/v0/models": `{"data":[{"id":"a","type":"llm","state":"not-loaded","capabilities":["tool_use"]},{"id":"b","type":"llm","state":"loaded"},{"id":"c","type":"llm","state":"loaded","capabilities":["tool_use"]}]}`}, nil, "lmstudio:c", "(LM Studio)"},
		{"a key before a server", "OLLAMA_HOST", map[string]string{"/api/tags": tags}, map[string]string{"ANTHROPIC_API_KEY": "k"}, "anthropic", "key in ANTHROPIC_API_KEY"},
		{"the key of OpenAI", "OLLAMA_HOST", nil, map[string]string{"HORTUS_OPENAI_API_KEY": "k"}, "openai", "key in HORTUS_OPENAI_API_KEY"},
		{"an address without a key", "OLLAMA_HOST", nil, map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			var posted []string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				if r.Method != http.MethodGet && r.URL.Path != "/api/show" {
					posted = append(posted, r.URL.Path)
				}
				answer, ok := c.answers[r.URL.Path]
				switch {
				case r.URL.Path == "/api/show" && r.Method == http.MethodPost:
					answer = show(string(body))
				case !ok:
					http.NotFound(w, r)
					return
				}
				_, _ = io.WriteString(w, answer)
			}))
			defer srv.Close()
			// The other servers are where nothing listens: port 1 of an address of the loopback interface.
			vars := map[string]string{}
			for _, s := range servers {
				vars[s.host] = "127.77.0.1:1"
			}
			vars[c.host] = srv.Listener.Addr().String()
			for k, v := range c.vars {
				vars[k] = v
			}
			m := hosted(t, vars)
			r, ok := m.AtHand(t.Context())
			if r.Name != c.want || ok != (c.want != "") || !strings.Contains(r.Source, c.source) {
				t.Fatalf("%+v, %v", r, ok)
			}
			if ok {
				if found, err := m.find(r.Name); err != nil || !strings.HasPrefix(found.Name(), r.Name) {
					t.Errorf("the model of that name: %v", err)
				}
			}
			if len(posted) > 0 {
				t.Errorf("a server was sent %v", posted)
			}
		})
	}
}

// TestLocalAddress: a variable cannot name another machine.
func TestLocalAddress(t *testing.T) {
	for value, want := range map[string]string{
		"": "127.0.0.1:11434", "0.0.0.0": "127.0.0.1:11434", "http://localhost:99/": "127.0.0.1:99", ":99": "127.0.0.1:99", "[::1]:99": "[::1]:99",
		"192.0.2.1:11434": "", "models.example.org": "", "http://127.0.0.1:99@192.0.2.1": "",
	} {
		if got := hosted(t, map[string]string{"OLLAMA_HOST": value}).addressOf(servers[0]); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
	if _, err := hosted(t, map[string]string{"OLLAMA_HOST": "192.0.2.1"}).find("ollama:x"); err == nil || !strings.Contains(err.Error(), "not an address of this machine") {
		t.Error(err)
	}
}
