package telemetry

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// census asks at each scrape what is held.
type census struct {
	Gauges
	log                                                *slog.Logger
	sandboxes, memory, pool, promised, budget, waiting *prometheus.Desc
	connections, questions                             *prometheus.Desc
	packages, served, stored                           *prometheus.Desc
}

func newCensus(g Gauges, log *slog.Logger) *census {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &census{
		Gauges: g, log: log,
		sandboxes:   desc("hortus_sandboxes", "Sandboxes that have not ended, paused ones included.", "state", "isolation"),
		memory:      desc("hortus_sandboxes_memory_bytes", "Memory of all sandboxes on this host: of their own, or shared, which is counted once.", "kind"),
		pool:        desc("hortus_pool_guests", "Guests that were booted ahead of requests: ready and wanted.", "state"),
		promised:    desc("hortus_admission_promised_bytes", "Sum of the memory limits of all sandboxes, in bytes."),
		budget:      desc("hortus_admission_budget_bytes", "Maximum of hortus_admission_promised_bytes."),
		waiting:     desc("hortus_admission_waiting", "Sandboxes that wait for capacity on the host."),
		connections: desc("hortus_egress_connections", "Open outgoing connections of sandboxes."),
		packages:    desc("hortus_package_cache_requests_total", "Requests for packages that the package cache could answer, by result: hit or miss.", "result"),
		served:      desc("hortus_package_cache_served_bytes_total", "Bytes that sandboxes got from the package cache."),
		stored:      desc("hortus_package_cache_bytes", "Size of the package cache; 0 until it is first used."),
		questions:   desc("hortus_egress_questions", "Open questions to people about outgoing connections."),
	}
}

// Describe implements prometheus.Collector.
func (c *census) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.sandboxes, c.memory, c.pool, c.promised, c.budget, c.waiting, c.connections, c.questions, c.packages, c.served, c.stored} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *census) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if c.Memory != nil {
		use := c.Memory()
		gauge(c.memory, float64(use.OwnBytes), "own")
		gauge(c.memory, float64(use.SharedBytes), "shared")
	}
	if c.Pool != nil {
		ready, want := c.Pool()
		gauge(c.pool, float64(ready), "ready")
		gauge(c.pool, float64(want), "wanted")
	}
	if c.Admission != nil {
		promised, budget, waiting := c.Admission()
		gauge(c.promised, float64(promised))
		gauge(c.budget, float64(budget))
		gauge(c.waiting, float64(waiting))
	}
	if c.Connections != nil {
		gauge(c.connections, float64(c.Connections()))
	}
	if c.Questions != nil {
		gauge(c.questions, float64(c.Questions()))
	}
	if c.Packages != nil {
		count := func(d *prometheus.Desc, v int64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
		}
		p := c.Packages()
		count(c.packages, p.Hits, "hit")
		count(c.packages, p.Misses, "miss")
		count(c.served, p.Served)
		gauge(c.stored, float64(p.Stored))
	}
	if c.Sandboxes == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), gather)
	defer cancel()
	all, err := c.Sandboxes(ctx)
	if err != nil {
		c.log.Error("a scrape does not show the sandboxes", "error", err)
		return
	}
	type key struct{ state, isolation string }
	count := map[key]int{}
	for _, s := range all {
		count[key{string(s.State), s.Isolation}]++
	}
	for k, n := range count {
		gauge(c.sandboxes, float64(n), k.state, k.isolation)
	}
}
