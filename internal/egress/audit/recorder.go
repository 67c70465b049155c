package audit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/egress"
	"hortus.dev/internal/platform/records"
)

// Store stores decisions; store.Egress has its contract.
type Store interface {
	InsertEgress(ctx context.Context, all []api.EgressDecision) error
}

// Events appends to the log of a sandbox. An event.Log is one.
type Events interface {
	Append(ctx context.Context, s api.Stream, t api.EventType, data any) (api.Event, error)
}

// Config is the configuration of a recorder. Store is required.
type Config struct {
	Store Store
	// Events gets the decisions that are denied, failed, waiting or answers, and alarms; nil means none.
	Events Events
	// Count is called with each decision, recorded or not, and with each gap; it must not
	// block. Answers are not decisions. nil counts nothing.
	Count func(api.EgressDecision)
	// Queue is the maximum number of decisions that wait to be stored (default 8192).
	Queue int
	// Delay is how long a decision waits for others, to be stored with them (default 100 ms).
	Delay  time.Duration
	Limits Limits
	Now    func() time.Time
	Logger *slog.Logger
}

// Limits are the maximum rates of records, in records a second, with bursts. Zero fields mean
// the defaults.
type Limits struct {
	// Sandbox limits the connections and requests of a sandbox that are allowed, and apart
	// from them everything else, so that a flood of refused ones does not hide an allowed one
	// (default 100, 2000).
	Sandbox, SandboxBurst int
	// Account limits all sandboxes of an account together (default 1000, 20,000). Between
	// two rounds of retention, which are ten minutes apart, it stores 600,000 records.
	Account, AccountBurst int
	// Events limits what is appended to the log of a sandbox (default 1, 100). Waiting
	// decisions and answers are limited by Asks.
	Events, EventsBurst int
}

func (l Limits) orDefaults() Limits {
	return Limits{
		cmp.Or(l.Sandbox, 100), cmp.Or(l.SandboxBurst, 2000),
		cmp.Or(l.Account, 1000), cmp.Or(l.AccountBurst, 20_000),
		cmp.Or(l.Events, 1), cmp.Or(l.EventsBurst, 100),
	}
}

// Recorder records decisions. Make one with NewRecorder, and close it. Its methods may be called
// from several goroutines.
type Recorder struct {
	cfg      Config
	writer   *records.Writer[api.EgressDecision, peer]
	records  *records.Limits[recordKey]
	accounts *records.Limits[string]
	watch    *watch

	// Only the writer uses these.
	events     *records.Limits[api.SandboxID]
	suppressed map[peer]int // decisions that are recorded and not in the log
}

// peer is whose decisions are missing.
type peer struct {
	account string
	sandbox api.SandboxID
	task    api.TaskID
}

func peerOf(d api.EgressDecision) peer { return peer{d.Account, d.Sandbox, d.Task} }

type recordKey struct {
	sandbox api.SandboxID
	carried bool
}

const (
	// maxPeers is the maximum number of sandboxes that suppressed events are counted for at a time.
	maxPeers = 4096
	// appendTimeout is the timeout of an event.
	appendTimeout = 10 * time.Second
)

var _ egress.Recorder = (*Recorder)(nil)

// NewRecorder creates a recorder and starts it.
func NewRecorder(cfg Config) *Recorder {
	cfg.Limits = cfg.Limits.orDefaults()
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Count == nil {
		cfg.Count = func(api.EgressDecision) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := cfg.Limits
	r := &Recorder{
		cfg: cfg, watch: newWatch(), suppressed: map[peer]int{},
		records:  records.NewLimits[recordKey](float64(l.Sandbox), l.SandboxBurst),
		accounts: records.NewLimits[string](float64(l.Account), l.AccountBurst),
		events:   records.NewLimits[api.SandboxID](float64(l.Events), l.EventsBurst),
	}
	r.writer = records.New(records.Config[api.EgressDecision, peer]{
		What: "decisions about outgoing connections", Insert: cfg.Store.InsertEgress, Owner: peerOf, Weight: weight,
		Gap: func(p peer, n int, at time.Time) api.EgressDecision {
			g := gapOf(p, n, at)
			g.Reason = fmt.Sprintf("%d decisions were not recorded: too many at once, or the store failed", n)
			cfg.Count(g)
			return g
		},
		Stored: r.tell, Round: r.tellSuppressed,
		Queue: cmp.Or(cfg.Queue, 8192), Delay: cfg.Delay, Now: cfg.Now, Logger: cfg.Logger,
	})
	return r
}

// gapOf returns the record of n decisions that are missing.
func gapOf(p peer, n int, at time.Time) api.EgressDecision {
	return api.EgressDecision{At: at, Account: p.account, Sandbox: p.sandbox, Task: p.task, Op: api.EgressOpGap, Result: api.EgressDropped, Count: n}
}

// Record implements egress.Recorder. It does not block. A decision without a time gets the
// present one.
func (r *Recorder) Record(d api.EgressDecision) {
	d = sanitize(d)
	now := r.cfg.Now()
	if d.At.IsZero() {
		d.At = now
	}
	if d.Op != api.EgressOpAnswer {
		r.cfg.Count(d)
	}
	if !r.allowed(d, now) {
		r.writer.Miss(d)
	} else {
		r.writer.Add(d)
	}
	if forPerson(d) {
		r.writer.Hurry()
	}
	if alarm, ok := r.watch.see(d, now); ok {
		r.cfg.Count(alarm)
		r.cfg.Logger.Warn("outgoing connections of a sandbox are suspicious", "sandbox", alarm.Sandbox, "task", alarm.Task, "account", alarm.Account,
			"host", alarm.Host, "reason", alarm.Reason)
		r.writer.Add(alarm)
	}
}

// forPerson reports whether a person waits for the decision.
func forPerson(d api.EgressDecision) bool {
	return d.Result == api.EgressWaiting || d.Op == api.EgressOpAnswer
}

// weight is the number of decisions that a record stands for.
func weight(d api.EgressDecision) int { return max(d.Count, 1) }

// allowed reports whether the limits allow a record.
func (r *Recorder) allowed(d api.EgressDecision, now time.Time) bool {
	if forPerson(d) { // Asks limit them
		return true
	}
	carried := d.Op != "resolve" && d.Result == api.EgressAllowed
	return r.records.Allow(recordKey{d.Sandbox, carried}, now) && r.accounts.Allow(d.Account, now)
}

// Flush returns when what was recorded before is stored, so that a reader of the store sees it, or
// with the error of ctx. After Close it returns nil.
func (r *Recorder) Flush(ctx context.Context) error { return r.writer.Flush(ctx) }

// Close records what is queued, for as long as ctx allows, and ends the recorder. Decisions that
// come later are lost. The error says how many were lost since the recorder was made.
func (r *Recorder) Close(ctx context.Context) error { return r.writer.Close(ctx) }

// tell appends decisions to the logs of their sandboxes.
func (r *Recorder) tell(ctx context.Context, all []api.EgressDecision) {
	if r.cfg.Events == nil {
		return
	}
	now := r.cfg.Now()
	for _, d := range all {
		if d.Result == api.EgressAllowed && d.Op != api.EgressOpAnswer {
			continue
		}
		if forPerson(d) || d.Result == api.EgressAlarm || r.events.Allow(d.Sandbox, now) {
			r.append(ctx, d)
			continue
		}
		if p := peerOf(d); len(r.suppressed) < maxPeers || r.suppressed[p] > 0 {
			r.suppressed[p] += weight(d)
		}
	}
}

// tellSuppressed appends to each log how many decisions it lacks, as soon as its limit allows. It
// returns whether there are more of them to report.
func (r *Recorder) tellSuppressed(ctx context.Context, closing bool) (more bool) {
	now := r.cfg.Now()
	for p, n := range r.suppressed {
		if closing || r.events.Allow(p.sandbox, now) {
			g := gapOf(p, n, now)
			g.Reason = fmt.Sprintf("%d more decisions are in the records only", n)
			r.append(ctx, g)
			delete(r.suppressed, p)
		}
	}
	return len(r.suppressed) > 0
}

func (r *Recorder) append(ctx context.Context, d api.EgressDecision) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	_, err := r.cfg.Events.Append(ctx, api.Stream{Kind: api.StreamSandbox, ID: string(d.Sandbox)}, api.EventEgress, d)
	if err != nil {
		r.cfg.Logger.Error("cannot append a decision to the log of its sandbox", "sandbox", d.Sandbox, "error", err)
	}
}
