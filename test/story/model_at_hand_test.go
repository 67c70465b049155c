package story

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/test/modelserver"
	"hortus.dev/test/tier"
)

// TestModelAtHand: without a configured model, run and task use the one of a server on this machine, and say so. What
// listens at such a port without being that server is sent no request.
func TestModelAtHand(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.light()
	fix := fixes[0]
	model, err := modelserver.New([]byte("model: qwen3:8b\n-- plan --" + planStep + "-- code --" + codeStep +
		scenario(t, step{tool: "str_replace", input: fix.edit}, shell(fix.verify), finishes())))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/tags", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"models":[{"name":"nomic-embed-text","digest":"0a10"},{"name":"qwen3:8b","digest":"500a"}]}`)
	})
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "qwen3") {
			_, _ = io.WriteString(w, `{"capabilities":["completion","tools"]}`)
			return
		}
		_, _ = io.WriteString(w, `{"capabilities":["embedding"]}`)
	})
	mux.Handle("/v1/", model)
	ollama := httptest.NewServer(mux)
	defer ollama.Close()
	var sent atomic.Bool
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			sent.Store(true)
		}
		_, _ = io.WriteString(w, `{"status":"ok","data":[]}`)
	}))
	defer stranger.Close()
	before := g.env

	// Nothing but strangers.
	elsewhere := strings.TrimPrefix(stranger.URL, "http://")
	g.env = append(g.env, "OLLAMA_HOST="+elsewhere, "HORTUS_LLAMACPP_HOST="+elsewhere, "HORTUS_VLLM_HOST="+elsewhere, "HORTUS_LMSTUDIO_HOST="+elsewhere)
	if r := g.run("run", "compute the factorial of 6"); r.code != 0 || !strings.Contains(r.stdout, "720") || strings.Contains(r.stderr, "model:") {
		t.Error(r)
	}
	if r := g.run("run", "what is six times seven?"); r.code != 3 || sent.Load() {
		t.Errorf("the stranger was sent a request: %v; %s", sent.Load(), r)
	}

	g.env = append(before, "OLLAMA_HOST="+strings.TrimPrefix(ollama.URL, "http://"),
		"HORTUS_LLAMACPP_HOST="+elsewhere, "HORTUS_VLLM_HOST="+elsewhere, "HORTUS_LMSTUDIO_HOST="+elsewhere)
	first := "model: qwen3:8b at " + ollama.URL + " (Ollama)"
	if r := g.run("run", "--model", "offline", "what is six times seven?"); r.code != 3 || strings.Contains(r.stderr, "qwen3") {
		t.Errorf("offline was not obeyed: %s", r)
	}
	r := g.run("run", "what is six times seven?")
	if r.code != 0 || r.stdout != "42\n" || !strings.HasPrefix(r.stderr, first) || !strings.Contains(r.stderr, "$0") {
		t.Error(r)
	}
	if r := g.run("doctor"); !strings.Contains(r.stdout, "ollama:qwen3:8b") {
		t.Error(r)
	}
	dir := makeRepo(t, g, fix.files)
	r = g.patient("task", "--repo", dir, "--author", "Ada <ada@example.org>", "--verify", fix.verify, "Fix the withdrawal")
	if r.code != 0 || !strings.HasPrefix(r.stderr, first) {
		t.Error(r)
	}
	for _, p := range model.Problems() {
		t.Error(p)
	}
	if sent.Load() {
		t.Error("a server that serves no models was sent a request")
	}
}
