package telemetry

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/sandbox"
)

// sink is a collector that keeps what it is sent.
type sink struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
	header http.Header
	path   string
}

func newSink(t *testing.T) *sink {
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bodies, s.header, s.path = append(s.bodies, b), r.Header.Clone(), r.URL.Path
	}))
	t.Cleanup(s.Close)
	return s
}

// span is what the tests look at.
type span struct {
	trace, id, parent, message string
	kind, code                 int
	start, end                 uint64
}

// spans returns what came, by name.
func (s *sink) spans(t *testing.T) map[string]span {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]span{}
	for _, b := range s.bodies {
		var in collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &in); err != nil {
			t.Fatalf("%v in %q", err, b)
		}
		for _, r := range in.ResourceSpans {
			for _, sc := range r.ScopeSpans {
				for _, p := range sc.Spans {
					out[p.Name] = span{
						trace: hex.EncodeToString(p.TraceId), id: hex.EncodeToString(p.SpanId), parent: hex.EncodeToString(p.ParentSpanId),
						kind: int(p.Kind), code: int(p.Status.GetCode()), message: p.Status.GetMessage(), start: p.StartTimeUnixNano, end: p.EndTimeUnixNano,
					}
				}
			}
		}
	}
	return out
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	secret  = "s3cret-of-a-user"
)

// TestTrace: one create and one command, asked for in two requests, are one trace, and
// nothing of what users wrote is in it.
func TestTrace(t *testing.T) {
	at := newSink(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", at.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-auth=a%20b")
	tel := New(Config{Version: "v1", Getenv: os.Getenv})
	if !tel.Traces() {
		t.Fatal("nothing is traced")
	}
	var born context.Context
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sandboxes", func(w http.ResponseWriter, r *http.Request) {
		ctx, end := tel.Begin(r.Context(), sandbox.Step{Op: sandbox.OpCreate})
		_, booted := tel.Begin(ctx, sandbox.Step{Op: sandbox.OpBoot, Sandbox: "sb1"})
		booted(sandbox.Outcome{Isolation: "container"})
		born = tel.Mark(ctx)
		end(sandbox.Outcome{Sandbox: "sb1", Isolation: "container", Way: sandbox.WayCold})
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("POST /v1/exec/{secret}", func(w http.ResponseWriter, r *http.Request) {
		_, end := tel.Begin(r.Context(), sandbox.Step{Op: sandbox.OpExec, Sandbox: "sb1", Exec: "ex1", After: born})
		end(sandbox.Outcome{Isolation: "container", Exit: &api.Exit{Code: 3, Cause: secret}, Err: api.Errorf(api.KindTimeout, "cannot run %s", secret)})
		panic(http.ErrAbortHandler)
	})
	srv := httptest.NewServer(tel.HTTP("http", mux))
	defer srv.Close()
	post := func(path, traceparent string) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+path, strings.NewReader(secret))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", secret)
		if traceparent != "" {
			req.Header.Set("traceparent", traceparent)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}
	post("/v1/sandboxes?token="+secret, "00-"+traceID+"-"+spanID+"-01")
	post("/v1/exec/"+secret, "")
	if err := tel.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := at.spans(t)
	server, create, boot, exec := got["POST /v1/sandboxes"], got["sandbox.create"], got["sandbox.boot"], got["sandbox.exec"]
	if server.trace != traceID || server.parent != spanID || create.parent != server.id || boot.parent != create.id {
		t.Errorf("server %+v\ncreate %+v\nboot %+v", server, create, boot)
	}
	if exec.trace != traceID || exec.parent != create.id || exec.code != 2 || exec.message != "timeout" {
		t.Errorf("exec %+v, not a child of %s", exec, create.id)
	}
	if server.kind != 2 || server.start == 0 || server.start > server.end {
		t.Errorf("server %+v", server)
	}
	if cut := got["POST /v1/exec/{secret}"]; cut.code != 2 || cut.trace == traceID {
		t.Errorf("the answer that was cut: %+v", cut)
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.path != "/v1/traces" || at.header.Get("x-auth") != "a b" || at.header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("%s %v", at.path, at.header)
	}
	for _, b := range append(at.bodies, []byte(scrape(t, tel))) {
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("a secret is in %s", b)
		}
	}
}

func scrape(t *testing.T, tel *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	tel := New(Config{Version: "v1"})
	if tel.Traces() {
		t.Error("something is traced")
	}
	tel.Watch(Gauges{
		Sandboxes: func(context.Context) ([]api.Sandbox, error) {
			return []api.Sandbox{{State: api.SandboxRunning, Isolation: "gvisor"}, {State: api.SandboxRunning, Isolation: "gvisor"}, {State: api.SandboxPaused, Isolation: "gvisor"}}, nil
		},
		Pool:      func() (int, int) { return 1, 2 },
		Admission: func() (int64, int64, int) { return 10, 20, 3 },
		Memory:    func() api.MemoryUse { return api.MemoryUse{OwnBytes: 70, SharedBytes: 60} },

		Connections: func() int { return 4 },
		Questions:   func() int { return 5 },
		Packages:    func() Packages { return Packages{Hits: 6, Misses: 7, Served: 80, Stored: 90} },
	})
	did := func(op sandbox.Op, o sandbox.Outcome) {
		_, end := tel.Begin(t.Context(), sandbox.Step{Op: op})
		end(o)
	}
	did(sandbox.OpCreate, sandbox.Outcome{Isolation: "container", Way: sandbox.WayPooled})
	did(sandbox.OpCreate, sandbox.Outcome{Isolation: "container", Way: sandbox.WayCold})
	did(sandbox.OpCreate, sandbox.Outcome{Isolation: "container", Way: sandbox.WayCold, Err: api.Errorf(api.KindExhausted, "full")})
	did(sandbox.OpExec, sandbox.Outcome{Isolation: "container", Exit: &api.Exit{}})
	did(sandbox.OpExec, sandbox.Outcome{Isolation: "container", Exit: &api.Exit{Code: -1, Cause: "some text of somebody's"}})
	did(sandbox.OpExec, sandbox.Outcome{Isolation: "container", Err: api.Errorf(api.KindNotFound, "no such file")})
	did(sandbox.OpKill, sandbox.Outcome{Isolation: "container"})
	tel.Waited(api.WaitMemory, time.Second, true)
	tel.Event(api.EventSandboxState)
	tel.Tier(api.TierEvent{Part: "repository", Tier: api.TierPacked})
	tel.Tier(api.TierEvent{Part: "repository", Tier: api.TierRaw, Hit: true})
	tel.Egress(api.EgressDecision{Result: api.EgressAllowed, Host: secret, Sent: 7, Received: 9})
	tel.Egress(api.EgressDecision{Result: api.EgressDenied, Count: 12, Sent: -1})
	tel.Egress(api.EgressDecision{Result: secret})
	tel.Secret(secrets.Use{Secret: secret})
	tel.Secret(secrets.Use{Secret: secret, Refused: secret})
	tel.Secret(secrets.Use{Refused: secret})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /a/{id}", func(w http.ResponseWriter, r *http.Request) {
		// Everything that servers do with a writer still works.
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
	})
	h := tel.HTTP("http", mux)
	for _, r := range [][2]string{{"GET", "/a/1"}, {"GET", "/a/2"}, {"GET", "/nowhere/else"}, {"BREW", "/a/3"}} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(r[0], r[1], nil))
	}
	got := scrape(t, tel)
	for _, want := range []string{
		`hortus_sandbox_creates_total{isolation="container",result="ok",way="pooled"} 1`,
		`hortus_sandbox_creates_total{isolation="container",result="exhausted",way="cold"} 1`,
		`hortus_sandbox_create_seconds_count{isolation="container",way="cold"} 1`,
		`hortus_pool_hits_total 1`, `hortus_pool_misses_total 1`,
		`hortus_execs_total{isolation="container",result="exited"} 1`,
		`hortus_execs_total{isolation="container",result="ended"} 1`,
		`hortus_execs_total{isolation="container",result="not_found"} 1`,
		`hortus_sandbox_kills_total{isolation="container",result="ok"} 1`,
		`hortus_admission_wait_seconds_count{admitted="yes",cause="memory"} 1`,
		`hortus_events_total{type="sandbox.state"} 1`,
		`hortus_tier_lookups_total{part="repository",result="miss",tier="packed"} 1`, `hortus_tier_lookups_total{part="repository",result="hit",tier="raw"} 1`,
		`hortus_egress_decisions_total{result="allowed"} 1`,
		`hortus_egress_decisions_total{result="denied"} 12`,
		`hortus_egress_decisions_total{result="other"} 1`,
		`hortus_secret_uses_total{result="sent"} 1`, `hortus_secret_uses_total{result="refused"} 2`,
		`hortus_egress_bytes_total{direction="sent"} 7`, `hortus_egress_bytes_total{direction="received"} 9`,
		`hortus_package_cache_requests_total{result="hit"} 6`, `hortus_package_cache_requests_total{result="miss"} 7`,
		`hortus_package_cache_served_bytes_total 80`, `hortus_package_cache_bytes 90`,
		`hortus_egress_connections 4`, `hortus_egress_questions 5`,
		`hortus_http_requests_total{code="200",method="GET",route="/a/{id}",server="http"} 2`,
		`hortus_http_requests_total{code="404",method="GET",route="none",server="http"} 1`,
		`hortus_http_requests_total{code="405",method="other",route="none",server="http"} 1`,
		`hortus_sandboxes{isolation="gvisor",state="running"} 2`,
		`hortus_sandboxes{isolation="gvisor",state="paused"} 1`,
		`hortus_sandboxes_memory_bytes{kind="own"} 70`, `hortus_sandboxes_memory_bytes{kind="shared"} 60`,
		`hortus_pool_guests{state="wanted"} 2`,
		`hortus_admission_promised_bytes 10`, `hortus_admission_budget_bytes 20`, `hortus_admission_waiting 3`,
		`hortus_build_info{version="v1"} 1`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(got, want+"\n") && !(strings.HasSuffix(want, " ") && strings.Contains(got, want)) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestVariables(t *testing.T) {
	const all, own = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	on := []string{all + "ENDPOINT", "http://c:4318"}
	for _, c := range []struct {
		env  []string
		on   bool
		kind api.Kind
	}{
		{nil, false, ""},
		{on, true, ""},
		{[]string{own + "ENDPOINT", "https://d/x"}, true, ""},
		{append(on[:2:2], "OTEL_SDK_DISABLED", "true"), false, ""},
		{append(on[:2:2], "OTEL_TRACES_EXPORTER", "none"), false, ""},
		{append(on[:2:2], "OTEL_TRACES_EXPORTER", "otlp"), true, ""},
		{append(on[:2:2], "OTEL_TRACES_EXPORTER", "zipkin"), false, api.KindUnsupported},
		{append(on[:2:2], all+"PROTOCOL", "grpc"), false, api.KindUnsupported},
		{append(on[:2:2], all+"PROTOCOL", "grpc", own+"PROTOCOL", "http/protobuf"), true, ""},
		{append(on[:2:2], own+"PROTOCOL", "http/json"), false, api.KindUnsupported},
		{[]string{all + "ENDPOINT", "secret:4318"}, false, api.KindInvalid},
	} {
		ok, err := wanted(env(c.env...))
		if ok != c.on || api.KindOf(err) != c.kind {
			t.Errorf("%q: %v, %v; want %v, %s", c.env, ok, err, c.on, c.kind)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
}

func TestLogNamesItsTrace(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(Log(slog.NewTextHandler(&out, nil))).With("a", 1).WithGroup("g")
	tel := New(Config{})
	h := tel.HTTP("http", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { log.InfoContext(r.Context(), "here") }))
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("traceparent", "00-"+traceID+"-"+spanID+"-01")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if !strings.Contains(out.String(), "trace_id="+traceID) {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	log.Info("there")
	if strings.Contains(out.String(), "trace_id") {
		t.Errorf("%s", out.String())
	}
}

// BenchmarkStep is what counting costs a create, with nothing traced.
func BenchmarkStep(b *testing.B) {
	tel := New(Config{})
	for b.Loop() {
		_, end := tel.Begin(b.Context(), sandbox.Step{Op: sandbox.OpCreate})
		end(sandbox.Outcome{Sandbox: "sb1", Isolation: "container", Way: sandbox.WayPooled})
	}
}
