package e2b

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
)

// records serves requests about metrics and logs.
type records struct{ finder }

func (d records) register(to *router) {
	to.handle("GET /sandboxes/{id}/metrics", d.on(d.metrics), "start", "end")
	to.handle("GET /sandboxes/metrics", d.lastMetrics, "sandbox_ids*")
	to.handle("GET /sandboxes/{id}/logs", d.on(d.oldLogs), "start", "limit")
	to.handle("GET /v2/sandboxes/{id}/logs", d.on(d.logs), "cursor", "limit", "direction", "level", "search")
}

// metric is what a sandbox used at an instant, in bytes and in percent of all its
// processors. What this host cannot tell is 0.
type metric struct {
	Timestamp     time.Time `json:"timestamp"`
	TimestampUnix int64     `json:"timestampUnix"`
	CPUCount      int       `json:"cpuCount"`
	CPUUsedPct    float64   `json:"cpuUsedPct"`
	MemUsed       int64     `json:"memUsed"`
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"`
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`
}

// metricsOf turns samples, the oldest first, into metrics. The share of the processors
// is that between a sample and the one before it; before the first there is the
// sandbox's birth.
func metricsOf(s api.Sandbox, samples []api.Stats) []metric {
	out := make([]metric, len(samples))
	before, used := s.CreatedAt, int64(0)
	for i, v := range samples {
		m := metric{
			Timestamp: v.At.UTC(), TimestampUnix: v.At.Unix(), CPUCount: cpuCount(s.Limits),
			MemUsed: max(v.MemoryBytes, 0), MemTotal: s.Limits.MemoryBytes,
			DiskUsed: max(v.DiskUsedBytes, 0), DiskTotal: v.DiskTotalBytes,
		}
		if own := v.MemoryOwnBytes; own >= 0 && own < m.MemUsed { // the rest is cached pages of files
			m.MemUsed, m.MemCache = own, m.MemUsed-own
		}
		if m.DiskTotal < 0 {
			m.DiskTotal = s.Limits.DiskBytes
		}
		span := v.At.Sub(before).Milliseconds()
		if v.CPUTimeMS >= used && span > 0 {
			share := float64(v.CPUTimeMS-used) / float64(span) / float64(m.CPUCount)
			m.CPUUsedPct = math.Round(share*10000) / 100
		}
		before, used = v.At, max(v.CPUTimeMS, 0)
		out[i] = m
	}
	return out
}

// metrics returns what a sandbox used between two instants, in Unix seconds.
func (d records) metrics(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	q := r.URL.Query()
	start, err := number(q, "start", 0, 0, math.MaxInt32<<8)
	if err != nil {
		return err
	}
	end, err := number(q, "end", math.MaxInt32<<8, 0, math.MaxInt32<<8)
	if err != nil {
		return err
	}
	if start > end {
		return api.Errorf(api.KindInvalid, `parameter "start" is after "end"`)
	}
	samples, err := d.Sandboxes.Samples(r.Context(), s.ID)
	if err != nil {
		return err
	}
	out := slices.DeleteFunc(metricsOf(s, samples), func(m metric) bool { return m.TimestampUnix < start || m.TimestampUnix > end })
	return answer(w, http.StatusOK, out)
}

// metricBytes is more than a metric has as JSON, with its sandbox.
const metricBytes = 1 << 10

// lastMetrics returns the last of several sandboxes. Those that the caller cannot have,
// those of which nothing is known yet, and those of a node that does not answer are left out.
func (d records) lastMetrics(w http.ResponseWriter, r *http.Request) error {
	ids := words(r.URL.Query(), "sandbox_ids")
	if len(ids) == 0 || len(ids) > maxPage {
		return api.Errorf(api.KindInvalid, `parameter "sandbox_ids" must have 1 to %d ids`, maxPage)
	}
	out := map[string]metric{}
	ids, others, err := d.forward.Sort(r.Context(), forward.Sandbox, ids)
	if err != nil {
		return err
	}
	for node, theirs := range others {
		var there struct {
			Sandboxes map[string]metric `json:"sandboxes"`
		}
		body, err := d.forward.Get(r.Context(), node, forward.DoorE2B, "/sandboxes/metrics?sandbox_ids="+strings.Join(theirs, ","), maxPage*metricBytes)
		if err == nil {
			err = json.Unmarshal(body, &there)
		}
		if err != nil && api.KindOf(err) != api.KindUnavailable {
			return err
		}
		maps.Copy(out, there.Sandboxes)
	}
	for _, id := range ids {
		s, err := d.findSandbox(r, api.SandboxID(id))
		if api.KindOf(err) == api.KindNotFound {
			continue
		}
		var samples []api.Stats
		if err == nil {
			samples, err = d.Sandboxes.Samples(r.Context(), s.ID)
		}
		if err != nil {
			return err
		}
		if all := metricsOf(s, samples); len(all) > 0 {
			out[id] = all[len(all)-1]
		}
	}
	return answer(w, http.StatusOK, map[string]any{"sandboxes": out})
}

// logEntry is one fact about a sandbox.
type logEntry struct {
	Timestamp time.Time         `json:"timestamp"`
	Message   string            `json:"message"`
	Level     string            `json:"level"`
	Fields    map[string]string `json:"fields"`
}

// levels are the words for how much a fact matters, the least first.
var levels = []string{"debug", "info", "warn", "error"}

// Bounds on logs: entries of one answer, and bytes of a command in one.
const (
	maxLogs    = 1000
	maxCommand = 1 << 10
)

// entriesOf describes how a sandbox was made and what the records of its commands say, in the
// order of time. Clients before 2.51 ask for the internet without being told to, so that
// it cannot be refused: the first line says that there is none.
func entriesOf(s api.Sandbox, execs []api.Exec) []logEntry {
	made := logEntry{s.CreatedAt.UTC(), "created: isolation " + s.Isolation + ", template " + clip(s.Template, maxCommand), "info", map[string]string{}}
	switch s.Egress {
	case api.EgressNone:
		made.Message += "; no network access (allow_internet_access is false)"
	case api.EgressRules:
		made.Message += "; network access by its egress policy"
	}
	out := []logEntry{made}
	for _, x := range execs {
		fields := map[string]string{"exec": string(x.ID), "user": x.User}
		command := clip(strings.Join(x.Args, " "), maxCommand)
		out = append(out, logEntry{x.StartedAt.UTC(), "started: " + command, "info", fields})
		if x.State == api.ExecRunning {
			continue
		}
		e := logEntry{x.EndedAt.UTC(), "ended with " + strconv.Itoa(x.Exit.Code) + ": " + command, "info", fields}
		switch {
		case x.State == api.ExecUnknown:
			e.Level, e.Message = "error", "ended with unknown status ("+clip(x.Exit.Cause, maxCommand)+"): "+command
		case x.Exit.Code != 0:
			e.Level = "warn"
		}
		if x.Exit.Cause != "" && x.State != api.ExecUnknown {
			e.Message += " (" + clip(x.Exit.Cause, maxCommand) + ")"
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b logEntry) int { return a.Timestamp.Compare(b.Timestamp) })
	return out
}

// clip cuts a text to so many bytes, between two characters, and says that it did.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "..."
}

// logs returns records after (or, backward, before) an instant in Unix milliseconds.
func (d records) logs(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	q := r.URL.Query()
	cursor, err := number(q, "cursor", -1, 0, math.MaxInt64/2)
	if err != nil {
		return err
	}
	limit, err := number(q, "limit", maxLogs, 0, maxLogs)
	if err != nil {
		return err
	}
	least := 0
	if word := q.Get("level"); word != "" {
		if least = slices.Index(levels, word); least < 0 {
			return api.Errorf(api.KindInvalid, `parameter "level": %.20q is not one of %s`, word, strings.Join(levels, ", "))
		}
	}
	backward := q.Get("direction") == "backward"
	if word := q.Get("direction"); word != "" && word != "forward" && !backward {
		return api.Errorf(api.KindInvalid, `parameter "direction": %.20q must be "forward" or "backward"`, word)
	}
	execs, err := d.execs(r, s.ID)
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(entriesOf(s, execs), func(e logEntry) bool {
		at := e.Timestamp.UnixMilli()
		return slices.Index(levels, e.Level) < least || !strings.Contains(e.Message, q.Get("search")) ||
			cursor >= 0 && (!backward && at < cursor || backward && at > cursor)
	})
	if backward {
		slices.Reverse(all)
	}
	out := append([]logEntry{}, all[:min(len(all), int(limit))]...)
	return answer(w, http.StatusOK, map[string]any{"logs": out})
}

// oldLogs is logs of the first generation, which has every fact twice.
func (d records) oldLogs(w http.ResponseWriter, r *http.Request, s api.Sandbox) error {
	q := r.URL.Query()
	start, err := number(q, "start", 0, 0, math.MaxInt64/2)
	if err != nil {
		return err
	}
	limit, err := number(q, "limit", maxLogs, 0, maxLogs)
	if err != nil {
		return err
	}
	execs, err := d.execs(r, s.ID)
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(entriesOf(s, execs), func(e logEntry) bool { return e.Timestamp.UnixMilli() < start })
	all = all[:min(len(all), int(limit))]
	type line struct {
		Timestamp time.Time `json:"timestamp"`
		Line      string    `json:"line"`
	}
	lines := []line{}
	for _, e := range all {
		text, err := e.line()
		if err != nil {
			return err
		}
		lines = append(lines, line{e.Timestamp, text})
	}
	return answer(w, http.StatusOK, map[string]any{"logs": lines, "logEntries": append([]logEntry{}, all...)})
}

// line is the entry as one line of JSON, which E2B's command line reads: it wants a level, a
// logger and a message.
func (e logEntry) line() (string, error) {
	fields := map[string]string{}
	for k, v := range e.Fields {
		fields[k] = v
	}
	fields["level"], fields["logger"], fields["message"] = e.Level, "process", e.Message
	b, err := json.Marshal(fields)
	if err != nil {
		return "", api.Errorf(api.KindInternal, "write a line of a log: %w", err)
	}
	return string(b), nil
}

// execs returns a sandbox's newest commands, as many as a log can show.
func (d records) execs(r *http.Request, id api.SandboxID) ([]api.Exec, error) {
	var out []api.Exec
	page := func(ctx context.Context, p api.PageRequest) ([]api.Exec, string, error) {
		return d.Sandboxes.ExecPage(ctx, id, p)
	}
	for x, err := range api.Pages(r.Context(), page) {
		if err != nil {
			return nil, err
		}
		if out = append(out, x); len(out) == maxLogs {
			break
		}
	}
	return out, nil
}
