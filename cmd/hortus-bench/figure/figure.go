package figure

import (
	"math"
	"slices"
	"time"
)

// Row is one figure. Baseline names the row that it is divided by; both were taken in the same run, in
// turn. A row with an N of 0 was not measured, and its Note says why.
type Row struct {
	Name          string  `json:"name"`
	Backend       string  `json:"backend,omitempty"`
	N             int     `json:"n"`
	P50MS         float64 `json:"p50_ms"`
	P99MS         float64 `json:"p99_ms"`
	Baseline      string  `json:"baseline,omitempty"`
	BaselineP50MS float64 `json:"baseline_p50_ms,omitempty"`
	Ratio         float64 `json:"ratio,omitempty"`
	// Value and Unit hold what is not a time (memory for example). A growth has what was counted before
	// and after too.
	Value  float64 `json:"value,omitempty"`
	Unit   string  `json:"unit,omitempty"`
	Before float64 `json:"before,omitempty"`
	After  float64 `json:"after,omitempty"`
	// Note is what the figures do not say: what a rival isolates less or more, what a count includes, why
	// there is nothing.
	Note string `json:"note,omitempty"`
}

// Progress is how far a measurement is.
type Progress struct {
	Measure, Backend string
	Done, Of         int
}

// Missing is a row without figures.
func Missing(name, backend, why string) Row {
	return Row{Name: name, Backend: backend, Note: "not measured: " + why}
}

// Times sets the number of samples and the quantiles of a row, and its ratio to the median of its
// Baseline in milliseconds, if it has one. It leaves the order of the times.
func (r *Row) Times(times []time.Duration, base float64) {
	sorted := slices.Sorted(slices.Values(times))
	r.N, r.P50MS, r.P99MS = len(sorted), MS(quantile(sorted, 0.50)), MS(quantile(sorted, 0.99))
	if r.Baseline != "" && base > 0 {
		r.BaselineP50MS = base
		r.Ratio = math.Round(r.P50MS/base*1000) / 1000
	}
}

// Median returns the median in milliseconds; 0 of no times.
func Median(times []time.Duration) float64 {
	return MS(quantile(slices.Sorted(slices.Values(times)), 0.5))
}

// MS returns milliseconds.
func MS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// quantile returns the q-th value of sorted times: the least one that at least that share of all does
// not exceed. Of no times it is 0.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	n := int(math.Ceil(q * float64(len(times))))
	return times[min(max(n, 1), len(times))-1]
}
