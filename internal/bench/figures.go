package bench

import (
	"math"
	"slices"
	"time"

	"hortus.dev/api/admin"
)

// fill sets a row's number of samples and quantiles. It sorts the times.
func fill(row *admin.BenchRow, times []time.Duration) {
	slices.Sort(times)
	row.N = len(times)
	row.P50MS, row.P99MS = ms(quantile(times, 0.50)), ms(quantile(times, 0.99))
}

// compare sets a row's ratio to its baseline.
func compare(row *admin.BenchRow, base float64) {
	if row.Baseline != "" && base > 0 {
		row.BaselineP50MS = base
		row.Ratio = math.Round(row.P50MS/base*1000) / 1000
	}
}

// quantile returns the q-th value of sorted times: the least one that at least
// that share of all does not exceed. Of no times it is 0.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	n := int(math.Ceil(q * float64(len(times))))
	return times[min(max(n, 1), len(times))-1]
}

// median is for times that are not sorted; it leaves their order.
func median(times []time.Duration) time.Duration {
	sorted := slices.Clone(times)
	slices.Sort(sorted)
	return quantile(sorted, 0.5)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
