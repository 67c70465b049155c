package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"hortus.dev/api"
)

// Config is what a telemetry needs. Every field may be left out.
type Config struct {
	// Version is the binary's.
	Version string
	// Getenv reads the OTEL_* variables that report whether something is traced, and
	// where; nil means that none is set. How is read from the process's environment.
	Getenv func(string) string
	Logger *slog.Logger
}

// Telemetry counts and traces. Its methods may be called from several goroutines.
type Telemetry struct {
	log      *slog.Logger
	registry *prometheus.Registry
	meters
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider // nil where nothing is traced
}

// New makes a telemetry. Variables that make no sense are logged, and nothing is
// traced then: a daemon serves all the same.
func New(cfg Config) *Telemetry {
	t := &Telemetry{log: cfg.Logger, registry: prometheus.NewRegistry(), tracer: noop.NewTracerProvider().Tracer(scope)}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	t.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "hortus_build_info", Help: "Version of the running binary; always 1.", ConstLabels: prometheus.Labels{"version": cfg.Version},
		}, func() float64 { return 1 }),
	)
	t.meters = newMeters(t.registry)
	provider, err := newProvider(cfg.Getenv, cfg.Version, t.log)
	if err != nil {
		t.log.Error("nothing is traced", "error", err)
	}
	if provider != nil {
		t.provider = provider
		t.tracer = provider.Tracer(scope)
	}
	return t
}

// scope names what makes the spans.
const scope = "hortus.dev"

// Traces reports whether anything is traced.
func (t *Telemetry) Traces() bool { return t.provider != nil }

// Metrics serves what was counted, in the formats of Prometheus. Who may see it is
// the caller's to decide.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Close sends what was traced, for as long as ctx allows.
func (t *Telemetry) Close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Gauges are what a scrape asks for. Fields may be nil.
type Gauges struct {
	// Sandboxes lists those that are not final.
	Sandboxes func(context.Context) ([]api.Sandbox, error)
	// Memory is what running sandboxes used when they were last measured.
	Memory func() api.MemoryUse
	// Pool counts the guests that wait for a sandbox, and those that should.
	Pool func() (ready, want int)
	// Admission tells what is promised, at most and now, in bytes of memory, and how
	// many wait.
	Admission func() (promised, budget int64, waiting int)
	// Connections counts the open outgoing connections of all sandboxes, Questions the
	// open questions to people about connections.
	Connections, Questions func() int
	// Packages returns what the package cache counted.
	Packages func() Packages
}

// Packages counts what the package cache did since the daemon started, and the bytes that it has
// Stored now. Served are bytes too.
type Packages struct{ Hits, Misses, Served, Stored int64 }

// gather bounds what a scrape asks for.
const gather = 5 * time.Second

// Watch has scrapes ask for what is held now. It is called once.
func (t *Telemetry) Watch(g Gauges) { t.registry.MustRegister(newCensus(g, t.log)) }
