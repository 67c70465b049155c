package daemon

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/client"
	wait "hortus.dev/test/patience"
)

// socket is a plain client of a daemon's socket.
func socket(dir string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "hortus.sock"))
	}}}
}

func get(t *testing.T, c *http.Client, path string) (int, string) {
	t.Helper()
	resp, err := c.Get("http://hortus" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// shortDir is a directory whose socket has a short name.
func shortDir(t *testing.T) string { return filepath.Join(t.TempDir(), "d") }

// TestMetricsAndReadiness asks a daemon over its socket.
func TestMetricsAndReadiness(t *testing.T) {
	dir := shortDir(t)
	c := connect(t, dir)
	isolated(t, c)
	raw := socket(dir)
	defer raw.CloseIdleConnections()
	if code, body := get(t, raw, "/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	eventually(t, "the daemon is ready", func() bool {
		code, body := get(t, raw, "/readyz")
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
	box, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	s, err := box.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A pool that lacks the guest that was just taken is no reason to leave service.
	if code, body := get(t, raw, "/readyz"); code != http.StatusOK {
		t.Errorf("readyz after a create: %d %s", code, body)
	}
	if err := box.Command(t.Context(), "true").Run(); err != nil {
		t.Fatal(err)
	}
	_, body := get(t, raw, "/metrics")
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
	dir := shortDir(t)
	c := connect(t, dir)
	isolated(t, c)
	raw := socket(dir)
	defer raw.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://hortus/v1/sandboxes", strings.NewReader(`{"env":{"A":"`+secret+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	resp, err := raw.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var s api.Sandbox
	err = json.NewDecoder(resp.Body).Decode(&s)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status, err)
	}
	box, err := c.Sandboxes.Get(t.Context(), string(s.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	if err := box.Command(t.Context(), "sh", "-c", "echo "+secret).Run(); err != nil {
		t.Fatal(err)
	}
	find := func(name string) span {
		mu.Lock()
		defer mu.Unlock()
		return spans[name]
	}
	eventually(t, "the collector has the command", func() bool { return find("sandbox.exec").id != "" && find("sandbox.create").id != "" })
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
	s, err := Open(t.Context(), Config{DataDir: shortDir(t), Idle: -1, Pool: -1, Drain: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Of(time.Minute))
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	signal, stop := context.WithCancel(t.Context())
	defer stop()
	ready, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- s.Serve(signal, func() { close(ready) }) }()
	<-ready
	c := client.Unix(s.dir.Socket())
	defer c.Close()
	box, err := c.Sandboxes.Create(t.Context(), api.CreateSandbox{Isolation: "process"})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := s.sandboxes.Guests.StartExec(t.Context(), box.ID(), api.ExecRequest{Args: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Next(); err != nil {
		t.Fatal(err)
	}
	stop()
	eventually(t, "nobody new gets in", func() bool {
		_, err := s.sandboxes.Creator.Create(t.Context(), api.CreateSandbox{Isolation: "process"})
		if err != nil && api.KindOf(err) != api.KindUnavailable {
			t.Fatalf("refused with %v", err)
		}
		return err != nil
	})
	if m := s.service.Missing(); len(m) != 1 || m[0] != "it is stopping" {
		t.Errorf("missing %q", m)
	}
	select {
	case err := <-served:
		t.Fatalf("it did not wait for the stream: %v", err)
	default:
	}
	// The command still runs, and ends as it would have.
	guest, err := s.sandboxes.Guests.Client(t.Context(), box.ID())
	if err != nil {
		t.Fatalf("the sandbox is gone before its stream: %v", err)
	}
	pid := uint32(stream.Exec().PID)
	if err := guest.CloseStdin(t.Context(), envd.Selector{PID: &pid}); err != nil {
		t.Fatal(err)
	}
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
	if err := <-served; err != nil {
		t.Error(err)
	}
	if n := s.sandboxes.Alive(); n != 0 {
		t.Errorf("%d sandboxes live", n)
	}
}
