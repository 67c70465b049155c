package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// meters are what is counted as it happens. docs/operations.md has the table.
type meters struct {
	creates       *prometheus.CounterVec
	createSeconds *prometheus.HistogramVec
	poolHits      prometheus.Counter
	poolMisses    prometheus.Counter
	execs         *prometheus.CounterVec
	execSeconds   *prometheus.HistogramVec
	kills         *prometheus.CounterVec
	waits         *prometheus.HistogramVec
	events        *prometheus.CounterVec
	tiers         *prometheus.CounterVec
	egress        *prometheus.CounterVec
	egressBytes   *prometheus.CounterVec
	secrets       *prometheus.CounterVec
	requests      *prometheus.CounterVec
	reqSeconds    *prometheus.HistogramVec
}

// Upper bounds in seconds: from what a pooled sandbox takes to what nobody waits for.
var (
	short = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	long  = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600}
)

func newMeters(r *prometheus.Registry) meters {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		r.MustRegister(h)
		return h
	}
	return meters{
		creates:       counter("hortus_sandbox_creates_total", "Requests for a sandbox, by the way it was created and the result: ok, or the kind of the error.", "isolation", "way", "result"),
		createSeconds: histogram("hortus_sandbox_create_seconds", "Time from the request until the guest of the sandbox responds, waiting included.", short, "isolation", "way"),
		poolHits:      counter("hortus_pool_hits_total", "Sandboxes that used a guest from the pool.").WithLabelValues(),
		poolMisses:    counter("hortus_pool_misses_total", "Sandboxes that could have used a guest from the pool, and found none.").WithLabelValues(),
		execs:         counter("hortus_execs_total", "Commands that ended, by result: exited, a cause such as timeout, or the kind of the error that prevented the start.", "isolation", "result"),
		execSeconds:   histogram("hortus_exec_seconds", "Time from the request for a command to its recorded end.", long, "isolation"),
		kills:         counter("hortus_sandbox_kills_total", "Sandboxes that were killed, by result.", "isolation", "result"),
		waits:         histogram("hortus_admission_wait_seconds", "Time that sandboxes waited for capacity on the host, by the last missing resource and by whether they were admitted.", long, "cause", "admitted"),
		events:        counter("hortus_events_total", "Events that were stored.", "type"),
		tiers:         counter("hortus_tier_lookups_total", "Lookups of what tasks start from, by part, tier (packed, raw, cold) and result: hit or miss.", "part", "tier", "result"),
		egress:        counter("hortus_egress_decisions_total", "Decisions about outgoing connections and requests of sandboxes: allowed, denied, failed, waiting; dropped counts those of them that were not recorded, and alarm what is suspicious.", "result"),
		egressBytes:   counter("hortus_egress_bytes_total", "Bytes of outgoing connections that have ended, by direction: sent or received by the sandbox.", "direction"),
		secrets:       counter("hortus_secret_uses_total", "Uses of secrets in outgoing requests, by result: sent, refused because a placeholder was where it may not be, refused by a budget, or broken: an answer that was broken off.", "result"),
		requests:      counter("hortus_http_requests_total", "Requests that ended.", "server", "method", "route", "code"),
		reqSeconds:    histogram("hortus_http_request_seconds", "Time of a request, streams included.", long, "server"),
	}
}

// Waited counts a wait for room; it fits admission.Config.
func (t *Telemetry) Waited(cause api.WaitCause, took time.Duration, admitted bool) {
	word := "no"
	if admitted {
		word = "yes"
	}
	t.waits.WithLabelValues(string(cause), word).Observe(took.Seconds())
}

// Event counts a fact that was stored.
func (t *Telemetry) Event(e api.EventType) { t.events.WithLabelValues(string(e)).Inc() }

// Tier counts a lookup of what a task starts from.
func (t *Telemetry) Tier(e api.TierEvent) {
	word := "miss"
	if e.Hit {
		word = "hit"
	}
	t.tiers.WithLabelValues(e.Part, e.Tier, word).Inc()
}

// Egress counts a decision about an outgoing connection; it fits audit.Config.
func (t *Telemetry) Egress(d api.EgressDecision) {
	word := "other"
	switch d.Result {
	case api.EgressAllowed, api.EgressDenied, api.EgressFailed, api.EgressWaiting, api.EgressDropped, api.EgressAlarm:
		word = string(d.Result)
	}
	t.egress.WithLabelValues(word).Add(float64(max(d.Count, 1)))
	t.egressBytes.WithLabelValues("sent").Add(float64(max(d.Sent, 0)))
	t.egressBytes.WithLabelValues("received").Add(float64(max(d.Received, 0)))
}

// Secret counts a use of a secret; it fits secret.Config.
func (t *Telemetry) Secret(u secrets.Use) {
	word := "sent"
	switch {
	case u.Budget != "":
		word = "budget"
	case u.Refused != "":
		word = "refused"
	case u.Broken:
		word = "broken"
	}
	t.secrets.WithLabelValues(word).Inc()
}

// result is the word for how something ended.
func result(err error) string {
	if err == nil {
		return "ok"
	}
	return string(api.KindOf(err))
}

// ending is the word for how a command ended.
func ending(x api.Exit) string {
	switch x.Cause {
	case "":
		return "exited"
	case api.CauseTimeout, api.CauseOutput, api.CauseMemory, api.CauseDisk, api.CauseQuota, api.CauseFull, api.CauseAccount, api.CauseCPUTime, api.CauseKilled, api.CauseLost:
		return x.Cause
	}
	return "ended"
}
