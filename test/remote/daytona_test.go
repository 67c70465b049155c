package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/backend/daytona"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/sandboxtest"
	"hortus.dev/test/tier"
	"hortus.dev/test/world"
)

const (
	daytonaKey   = "dtn_0123456789abcdef"
	previewToken = "preview-token"
)

// double answers as the OpenAPI document of Daytona says. Its sandboxes are those of a Hortus.
type double struct {
	t   *testing.T
	w   *world.World
	url string

	mu    sync.Mutex
	boxes map[string]*daytonaBox
}

type daytonaBox struct {
	sandbox *client.Sandbox
	labels  map[string]string
	polls   int
	ports   map[int]string
	active  int
}

func newDouble(t *testing.T, w *world.World) *double {
	d := &double{t: t, w: w, boxes: map[string]*daytonaBox{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/sandbox", d.create)
	mux.HandleFunc("GET /api/sandbox", d.list)
	mux.HandleFunc("GET /api/sandbox/{id}", d.on(d.get))
	mux.HandleFunc("DELETE /api/sandbox/{id}", d.on(d.delete))
	mux.HandleFunc("POST /api/sandbox/{id}/last-activity", d.on(func(w http.ResponseWriter, r *http.Request, b *daytonaBox) {
		b.active++
		w.WriteHeader(http.StatusCreated)
	}))
	mux.HandleFunc("GET /api/sandbox/{id}/ports/{port}/preview-url", d.on(d.preview))
	mux.HandleFunc("POST /toolbox/{id}/files/upload", d.on(d.upload))
	mux.HandleFunc("POST /toolbox/{id}/process/execute", d.on(d.execute))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+daytonaKey {
			http.Error(w, `{"statusCode":401,"message":"Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	d.url = s.URL
	return d
}

func (d *double) service(t *testing.T) *daytona.Service {
	t.Helper()
	s, err := daytona.New(daytona.Config{APIURL: d.url + "/api", Domains: []string{"127.0.0.1"}, Key: keyed(daytonaKey)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// on finds the sandbox of a request.
func (d *double) on(f func(http.ResponseWriter, *http.Request, *daytonaBox)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		b := d.boxes[r.PathValue("id")]
		d.mu.Unlock()
		if b == nil {
			http.Error(w, `{"statusCode":404,"message":"Sandbox not found"}`, http.StatusNotFound)
			return
		}
		f(w, r, b)
	}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// dto is a Sandbox of the document. The first time it is still starting.
func (d *double) dto(b *daytonaBox) map[string]any {
	state := "started"
	if b.polls++; b.polls == 1 {
		state = "creating"
	}
	return map[string]any{"id": string(b.sandbox.ID()), "state": state, "labels": b.labels, "toolboxProxyUrl": d.url + "/toolbox"}
}

func (d *double) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Snapshot           string            `json:"snapshot"`
		Labels             map[string]string `json:"labels"`
		Public             *bool             `json:"public"`
		NetworkBlockAll    *bool             `json:"networkBlockAll"`
		AutoStopInterval   int               `json:"autoStopInterval"`
		AutoDeleteInterval *int              `json:"autoDeleteInterval"`
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil || in.Public == nil || *in.Public || in.NetworkBlockAll == nil || !*in.NetworkBlockAll || in.AutoStopInterval < 1 || in.AutoDeleteInterval == nil {
		d.t.Errorf("create: %+v, %v", in, err)
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	s, err := d.w.Client.Sandboxes.Create(context.Background(), api.CreateSandbox{Isolation: "container"})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b := &daytonaBox{sandbox: s, labels: in.Labels, ports: map[int]string{}}
	d.mu.Lock()
	d.boxes[string(s.ID())] = b
	d.mu.Unlock()
	answer(w, d.dto(b))
}

func (d *double) list(w http.ResponseWriter, r *http.Request) {
	want := map[string]string{}
	if text := r.URL.Query().Get("labels"); text != "" {
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			d.t.Errorf("labels %q: %v", text, err)
		}
	}
	items := []any{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.boxes {
		fits := true
		for k, v := range want {
			fits = fits && b.labels[k] == v
		}
		if fits {
			items = append(items, d.dto(b))
		}
	}
	answer(w, map[string]any{"items": items})
}

func (d *double) get(w http.ResponseWriter, _ *http.Request, b *daytonaBox) { answer(w, d.dto(b)) }

func (d *double) delete(w http.ResponseWriter, r *http.Request, b *daytonaBox) {
	if _, err := b.sandbox.Kill(context.Background()); err != nil {
		d.t.Error(err)
	}
	d.mu.Lock()
	delete(d.boxes, string(b.sandbox.ID()))
	d.mu.Unlock()
	answer(w, map[string]any{"id": string(b.sandbox.ID()), "state": "destroying"})
}

// preview gives each port an address of its own, which needs a token.
func (d *double) preview(w http.ResponseWriter, r *http.Request, b *daytonaBox) {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil {
		http.Error(w, "bad port", http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.ports[port] == "" {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "sandbox"})
		proxy.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.sandbox.Dial(ctx, port) }}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Daytona-Preview-Token") != previewToken || r.Header.Get("Authorization") != "" {
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			proxy.ServeHTTP(w, r)
		}))
		d.t.Cleanup(s.CloseClientConnections)
		b.ports[port] = s.URL
	}
	answer(w, map[string]any{"sandboxId": string(b.sandbox.ID()), "url": b.ports[port], "token": previewToken})
}

func (d *double) upload(w http.ResponseWriter, r *http.Request, b *daytonaBox) {
	f, _, err := r.FormFile("file")
	if err == nil {
		err = b.sandbox.WriteFile(r.Context(), "", r.URL.Query().Get("path"), f)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, map[string]any{})
}

func (d *double) execute(w http.ResponseWriter, r *http.Request, b *daytonaBox) {
	var in struct {
		Command string `json:"command"`
		Timeout int    `json:"timeout"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Command == "" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	var out bytes.Buffer
	cmd := b.sandbox.Command(r.Context(), "sh", "-c", in.Command)
	cmd.Stdout, cmd.Stderr = &out, io.Writer(&out)
	code := 0
	if err := cmd.Run(); err != nil {
		code = 1
	}
	answer(w, map[string]any{"exitCode": code, "result": out.String()})
}

// atDaytona: the whole suite in soak, and one sandbox from its start to its end in each run.
func atDaytona(t *testing.T, w *world.World, _ string) {
	d, b := newDouble(t, w), newBench(t)
	s := d.service(t)
	backend := b.backend(t, s, false)
	spec := sandbox.Spec{ID: api.NewSandboxID(), Limits: api.DefaultLimits(), Env: map[string]string{"GIVEN": "value"}}
	m, err := backend.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, m, "echo $GIVEN; pwd"); got != "value\n/workspace\n" {
		t.Errorf("output %q", got)
	}
	if left := boxes(t, s, b, spec.ID); len(left) != 2 {
		t.Errorf("a live sandbox is found as %q", left)
	}
	if proof, err := m.Kill(t.Context()); err != nil || proof.Left != 0 {
		t.Errorf("kill: %+v, %v", proof, err)
	}
	if left := boxes(t, s, b, spec.ID); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	// An address of another domain would get the API key.
	other, err := daytona.New(daytona.Config{APIURL: d.url + "/api", Domains: []string{"daytona.io"}, Key: keyed(daytonaKey)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	spec.ID = api.NewSandboxID()
	if _, err := b.backend(t, other, false).Start(t.Context(), spec); api.KindOf(err) != api.KindUnavailable || !strings.Contains(err.Error(), "which is not of daytona.io") {
		t.Errorf("an address of another domain: %v", err)
	}
	t.Run("documented", func(t *testing.T) { sandboxtest.Documented(t, backend, backend.Probe(t.Context())) })
	tier.Soak(t)
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Fixture {
		return sandboxtest.Fixture{
			Backend: backend, Store: b.layers, Workspaces: b.workspaces,
			Leftovers: func(id api.SandboxID) []string { return boxes(t, s, b, id) },
		}
	})
}
