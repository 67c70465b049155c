package telemetry

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"hortus.dev/api"
)

// wanted reports whether the standard variables name a collector and want something sent
// there. The library reads them itself, and ignores what it does not know: a protocol
// that it does not speak, an address that is none. Those are errors here.
func wanted(getenv func(string) string) (bool, error) {
	// A variable for traces goes before the one for everything.
	get := func(name string) (value, from string) {
		for _, from := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if v := strings.TrimSpace(getenv(from)); v != "" {
				return v, from
			}
		}
		return "", ""
	}
	endpoint, from := get("ENDPOINT")
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if endpoint == "" || exporter == "none" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	if exporter != "" && exporter != "otlp" {
		return false, api.Errorf(api.KindUnsupported, "OTEL_TRACES_EXPORTER=%.40q: only otlp is supported", exporter)
	}
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false, api.Errorf(api.KindInvalid, "%s is not an http or https URL", from) // it may hold a password
	}
	if v, from := get("PROTOCOL"); v != "" && v != "http/protobuf" {
		return false, api.Errorf(api.KindUnsupported, "%s=%.40q: only http/protobuf is supported", from, v).
			WithHint("unset it, or set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf")
	}
	return true, nil
}

// newProvider makes what records spans, nil where nothing is to be traced.
func newProvider(getenv func(string) string, version string, log *slog.Logger) (*sdktrace.TracerProvider, error) {
	if ok, err := wanted(getenv); !ok {
		return nil, err
	}
	ctx := context.Background()
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "hortus"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "the exporter of traces: %w", err)
	}
	// The library has one place for errors that are nobody's, for the whole process.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "error", err) }))
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res)), nil
}
