package daemon

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/daemon"
	"hortus.dev/test/world"
)

// TestMetricsAndReadiness asks a daemon over its socket.
func TestMetricsAndReadiness(t *testing.T) {
	t.Parallel()
	dir := world.NewDir(t)
	get := func(path string) (int, string) {
		resp := world.Over(t, t.Context(), dir, "GET", path, "")
		return resp.StatusCode, world.Text(t, resp)
	}
	c := world.Connect(t, dir)
	world.Isolates(t, c, "")
	if code, body := get("/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	world.Eventually(t, "the daemon is ready", func() bool {
		code, body := get("/readyz")
		var said struct {
			Ready   bool
			Missing []string
		}
		if err := json.Unmarshal([]byte(body), &said); err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		if said.Ready != (code == http.StatusOK) || said.Ready != (len(said.Missing) == 0) {
			t.Errorf("%d %s", code, body)
		}
		return said.Ready
	})
	if info, err := c.Info(t.Context()); err != nil || info.Warm != info.WarmWanted || info.Warm != daemon.DefaultPool {
		t.Errorf("ready with %+v, %v", info, err)
	}
	sandbox := world.Must(c.Sandboxes.Create(t.Context(), api.CreateSandbox{}))(t)
	defer sandbox.Close()
	s := world.Must(sandbox.Info(t.Context()))(t)
	// A pool that lacks the guest that was just taken is no reason to leave service.
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("readyz after a create: %d %s", code, body)
	}
	world.OK(t, sandbox.Command(t.Context(), "true").Run())
	_, body := get("/metrics")
	for _, want := range []string{
		`hortus_sandboxes{isolation="` + s.Isolation + `",state="running"} 1`,
		`hortus_sandbox_creates_total{isolation="` + s.Isolation + `",result="ok",way="pooled"} 1`,
		`hortus_pool_hits_total 1`,
		`hortus_execs_total{isolation="` + s.Isolation + `",result="exited"} 1`,
		`hortus_admission_promised_bytes 1.073741824e+09`,
		`hortus_http_requests_total{code="201",method="POST",route="/v1/sandboxes",server="http"} 1`,
		`process_resident_memory_bytes `,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}

// TestOneTrace: a create with a traceparent and the first command in its sandbox are
// one trace, in the real daemon with a real sandbox, and the collector hears nothing
// of what users wrote.
func TestOneTrace(t *testing.T) {
	const traceID, secret = "4bf92f3577b34da6a3ce929d0e0e4736", "s3cret-of-a-user"
	type span struct{ trace, id, parent string }
	var mu sync.Mutex
	var all strings.Builder
	spans := map[string]span{}
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var in collector.ExportTraceServiceRequest
		mu.Lock()
		defer mu.Unlock()
		all.Write(b)
		if err := proto.Unmarshal(b, &in); err != nil {
			t.Errorf("%v in %q", err, b)
		}
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					spans[s.Name] = span{hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId)}
				}
			}
		}
	}))
	defer sink.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	dir := world.NewDir(t)
	c := world.Connect(t, dir)
	world.Isolates(t, c, "")
	resp := world.Over(t, t.Context(), dir, "POST", "/v1/sandboxes", `{"env":{"A":"`+secret+`"}}`, "traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	s := world.Into[api.Sandbox](t, resp, http.StatusCreated)
	sandbox := world.Must(c.Sandboxes.Get(t.Context(), string(s.ID)))(t)
	defer sandbox.Close()
	world.OK(t, sandbox.Command(t.Context(), "sh", "-c", "echo "+secret).Run())
	find := func(name string) span {
		mu.Lock()
		defer mu.Unlock()
		return spans[name]
	}
	world.Eventually(t, "the collector has the command", func() bool { return find("sandbox.exec").id != "" && find("sandbox.create").id != "" })
	create, exec := find("sandbox.create"), find("sandbox.exec")
	how := find("sandbox.claim")
	if how.id == "" {
		how = find("sandbox.boot") // the pool was not full yet
	}
	if create.trace != traceID || exec.trace != traceID || how.parent != create.id || create.parent != find("POST /v1/sandboxes").id {
		t.Errorf("create %+v\nstart %+v\nexec %+v", create, how, exec)
	}
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(all.String(), secret) {
		t.Error("the collector knows a secret")
	}
}

// TestDrain: a daemon that is told to end takes nothing new, lets a stream come to
// its end, and goes then.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := world.Open(t, world.Config{Config: daemon.Config{Drain: -1}})
	sandbox := world.Must(w.Client.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "process"}))(t)
	stream := world.Must(w.Sandboxes.Guests.StartExec(t.Context(), sandbox.ID(), api.ExecRequest{Args: []string{"cat"}, Stdin: true}))(t)
	world.Must(stream.Next())(t)
	w.Signal()
	world.Eventually(t, "nobody new gets in", func() bool {
		_, err := w.Sandboxes.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process"})
		if err != nil && api.KindOf(err) != api.KindUnavailable {
			t.Fatalf("refused with %v", err)
		}
		return err != nil
	})
	if !w.Serves() {
		t.Fatal("it did not wait for the stream")
	}
	// The command still runs, and ends as it would have.
	guest, err := w.Sandboxes.Guests.Client(t.Context(), sandbox.ID())
	if err != nil {
		t.Fatalf("the sandbox is gone before its stream: %v", err)
	}
	pid := uint32(stream.Exec().PID)
	world.OK(t, guest.CloseStdin(t.Context(), envd.Selector{PID: &pid}))
	for {
		if _, err := stream.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the stream was cut: %v", err)
		}
	}
	if x := stream.Exec(); x.State != api.ExecExited || x.Exit.Code != 0 {
		t.Errorf("%+v", x)
	}
	w.Ended()
	if n := w.Sandboxes.Alive(); n != 0 {
		t.Errorf("%d sandboxes live", n)
	}
}
