package telemetry

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

type aloneKey struct{}

// requestOnly says that a request brought no trace of its own: the one in the context
// is that of the request alone.
func requestOnly(ctx context.Context) bool {
	alone, _ := ctx.Value(aloneKey{}).(bool)
	return alone
}

// HTTP counts and traces the requests of a server. next must be the server's own mux, or
// hand it the very request: the route is what the mux found.
func (t *Telemetry) HTTP(server string, next http.Handler) http.Handler {
	seconds := t.reqSeconds.WithLabelValues(server)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		if !trace.SpanContextFromContext(ctx).IsValid() {
			ctx = context.WithValue(ctx, aloneKey{}, true)
		}
		method := methodOf(r)
		ctx, span := t.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer))
		r = r.WithContext(ctx)
		out := &answer{ResponseWriter: w}
		whole := false
		defer func() {
			code, route := out.codeOf(whole), routeOf(r)
			took := time.Since(start)
			t.requests.WithLabelValues(server, method, route, code).Inc()
			seconds.Observe(took.Seconds())
			t.log.DebugContext(ctx, "request", "server", server, "method", method, "route", route, "code", code, "ms", took.Milliseconds())
			if span.IsRecording() {
				span.SetName(method + " " + route)
				span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route), attribute.String("hortus.server", server))
				if n, err := strconv.Atoi(code); err == nil {
					span.SetAttributes(attribute.Int("http.response.status_code", n))
				}
				if code == aborted || code[0] == '5' {
					span.SetStatus(codes.Error, code)
				}
			}
			span.End()
		}()
		next.ServeHTTP(out, r)
		whole = true
	})
}

// routeOf is the pattern that a mux found, without its method.
func routeOf(r *http.Request) string {
	route := r.Pattern
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	if route == "" || route == "/" {
		return "none"
	}
	return route
}

// methodOf is the method, of those that there are.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "other"
}

// aborted is the code of an answer that was cut.
const aborted = "aborted"

// answer sees the status of an answer. Everything else goes through.
type answer struct {
	http.ResponseWriter
	code int
}

// Unwrap lets http.ResponseController find what the writer beneath can do.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is Flush that reports whether the client is gone; http.ResponseController
// asks for it.
func (a *answer) FlushError() error {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// codeOf is the status as a word; whole says that the handler returned.
func (a *answer) codeOf(whole bool) string {
	switch {
	case !whole:
		return aborted
	case a.code == 0:
		return "200" // what the server sends for a handler that wrote nothing
	case a.code < 100 || a.code > 599:
		return "other"
	}
	return strconv.Itoa(a.code)
}
