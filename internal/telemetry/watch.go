package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox"
)

var _ sandbox.Watcher = (*Telemetry)(nil)

// Begin implements sandbox.Watcher.
func (t *Telemetry) Begin(ctx context.Context, s sandbox.Step) (context.Context, func(sandbox.Outcome)) {
	start := time.Now()
	var opts []trace.SpanStartOption
	if born := trace.SpanContextFromContext(s.After); s.After != nil && born.IsValid() {
		// The first command belongs to the trace that made its sandbox, unless its
		// caller has one of its own: then the two are tied together.
		if trace.SpanContextFromContext(ctx).IsValid() && !requestOnly(ctx) {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: born}))
		} else {
			ctx = trace.ContextWithSpanContext(ctx, born)
		}
	}
	ctx, span := t.tracer.Start(ctx, "sandbox."+string(s.Op), opts...)
	return ctx, func(o sandbox.Outcome) {
		took := time.Since(start)
		t.count(s.Op, o, took)
		if span.IsRecording() {
			describe(span, s, o)
		}
		span.End()
	}
}

// Mark implements sandbox.Watcher.
func (t *Telemetry) Mark(ctx context.Context) context.Context {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return nil
	}
	return trace.ContextWithSpanContext(context.Background(), sc)
}

func (t *Telemetry) count(op sandbox.Op, o sandbox.Outcome, took time.Duration) {
	switch op {
	case sandbox.OpCreate:
		t.creates.WithLabelValues(o.Isolation, string(o.Way), result(o.Err)).Inc()
		if o.Err != nil {
			return
		}
		t.createSeconds.WithLabelValues(o.Isolation, string(o.Way)).Observe(took.Seconds())
		switch o.Way {
		case sandbox.WayPooled:
			t.poolHits.Inc()
		case sandbox.WayCold:
			t.poolMisses.Inc()
		}
	case sandbox.OpExec:
		word := result(o.Err)
		if o.Exit != nil {
			word = ending(*o.Exit)
			t.execSeconds.WithLabelValues(o.Isolation).Observe(took.Seconds())
		}
		t.execs.WithLabelValues(o.Isolation, word).Inc()
	case sandbox.OpKill:
		t.kills.WithLabelValues(o.Isolation, result(o.Err)).Inc()
	}
}

// describe sets the attributes of a span: identifiers, numbers and words of closed sets.
func describe(span trace.Span, s sandbox.Step, o sandbox.Outcome) {
	add := func(key, value string) {
		if value != "" {
			span.SetAttributes(attribute.String(key, value))
		}
	}
	id := s.Sandbox
	if id == "" {
		id = o.Sandbox
	}
	add("hortus.sandbox.id", string(id))
	add("hortus.exec.id", string(s.Exec))
	add("hortus.isolation", o.Isolation)
	add("hortus.way", string(o.Way))
	if o.Exit != nil {
		span.SetAttributes(attribute.Int("process.exit.code", o.Exit.Code))
		add("hortus.exec.ending", ending(*o.Exit))
	}
	if o.Err != nil {
		add("error.type", string(api.KindOf(o.Err)))
		span.SetStatus(codes.Error, string(api.KindOf(o.Err)))
	}
}
