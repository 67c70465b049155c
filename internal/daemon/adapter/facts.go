package adapter

import (
	"context"

	"hortus.dev/api"
	"hortus.dev/internal/egress/audit"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/event"
	"hortus.dev/internal/telemetry"
)

// Facts is the log of events, counted by the metrics.
type Facts struct {
	*event.Log
	Metrics *telemetry.Telemetry
	// Lifecycle is called after an event about the life of a sandbox was stored; nil for nobody.
	Lifecycle func()
}

// Append implements sandbox.Log and task.Log.
func (f Facts) Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error) {
	e, err := f.Log.Append(ctx, s, t, data)
	if err == nil {
		f.Metrics.Event(t)
		if f.Lifecycle != nil && (t == api.EventSandboxState || t == api.EventUpdated) {
			f.Lifecycle()
		}
		if tier, ok := data.(api.TierEvent); ok {
			f.Metrics.Tier(tier)
		}
	}
	return e, err
}

// Appended takes an event that was stored with something else.
func (f Facts) Appended(e api.Event) {
	f.Wake(e.Stream, e.Seq)
	f.Metrics.Event(e.Type)
}

// Decisions implements access.Decisions over the store, with what is not stored yet.
type Decisions struct {
	Rows     store.Egress
	Recorder *audit.Recorder
}

// EgressPage implements access.Decisions.
func (d Decisions) EgressPage(ctx context.Context, account string, f api.EgressFilter, p api.PageRequest) ([]api.EgressDecision, string, error) {
	if err := d.Recorder.Flush(ctx); err != nil {
		return nil, "", err
	}
	return d.Rows.EgressPage(ctx, account, f, p)
}
