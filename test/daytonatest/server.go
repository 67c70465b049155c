package daytonatest

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
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
)

// Key is the API key that a server takes. It may be sent to no other address.
const Key = "dtn_0123456789abcdef"

// previewToken is what the addresses of ports ask for.
const previewToken = "preview-token"

// Server answers as the OpenAPI document of Daytona says.
type Server struct {
	// URL is the base URL: the API is below /api, what acts in sandboxes below /toolbox.
	URL string

	t       testing.TB
	backing *client.Client

	mu    sync.Mutex
	boxes map[string]*box
}

// box is a sandbox of the service.
type box struct {
	sandbox *client.Sandbox
	labels  map[string]string
	polls   int            // how often its state was asked for
	ports   map[int]string // the URL of each port that was asked for
}

// Start starts a server until the test ends. Its sandboxes are containers of the Hortus behind backing.
func Start(t testing.TB, backing *client.Client) *Server {
	t.Helper()
	d := &Server{t: t, backing: backing, boxes: map[string]*box{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/sandbox", d.create)
	mux.HandleFunc("GET /api/sandbox", d.list)
	mux.HandleFunc("GET /api/sandbox/{id}", d.on(d.get))
	mux.HandleFunc("DELETE /api/sandbox/{id}", d.on(d.delete))
	mux.HandleFunc("POST /api/sandbox/{id}/last-activity", d.on(func(w http.ResponseWriter, _ *http.Request, _ *box) {
		w.WriteHeader(http.StatusCreated)
	}))
	mux.HandleFunc("GET /api/sandbox/{id}/ports/{port}/preview-url", d.on(d.preview))
	mux.HandleFunc("POST /toolbox/{id}/files/upload", d.on(d.upload))
	mux.HandleFunc("POST /toolbox/{id}/process/execute", d.on(d.execute))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+Key {
			http.Error(w, `{"statusCode":401,"message":"Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	d.URL = s.URL
	return d
}

// on finds the sandbox of a request.
func (d *Server) on(f func(http.ResponseWriter, *http.Request, *box)) http.HandlerFunc {
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
func (d *Server) dto(b *box) map[string]any {
	state := "started"
	if b.polls++; b.polls == 1 {
		state = "creating"
	}
	return map[string]any{"id": string(b.sandbox.ID()), "state": state, "labels": b.labels, "toolboxProxyUrl": d.URL + "/toolbox"}
}

func (d *Server) create(w http.ResponseWriter, r *http.Request) {
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
	s, err := d.backing.Sandboxes.Create(context.Background(), api.CreateSandbox{Isolation: "container"})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b := &box{sandbox: s, labels: in.Labels, ports: map[int]string{}}
	d.mu.Lock()
	d.boxes[string(s.ID())] = b
	d.mu.Unlock()
	answer(w, d.dto(b))
}

func (d *Server) list(w http.ResponseWriter, r *http.Request) {
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

func (d *Server) get(w http.ResponseWriter, _ *http.Request, b *box) { answer(w, d.dto(b)) }

func (d *Server) delete(w http.ResponseWriter, r *http.Request, b *box) {
	if _, err := b.sandbox.Kill(context.Background()); err != nil {
		d.t.Error(err)
	}
	d.mu.Lock()
	delete(d.boxes, string(b.sandbox.ID()))
	d.mu.Unlock()
	answer(w, map[string]any{"id": string(b.sandbox.ID()), "state": "destroying"})
}

// preview gives each port an address of its own, which needs a token.
func (d *Server) preview(w http.ResponseWriter, r *http.Request, b *box) {
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

func (d *Server) upload(w http.ResponseWriter, r *http.Request, b *box) {
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

func (d *Server) execute(w http.ResponseWriter, r *http.Request, b *box) {
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
