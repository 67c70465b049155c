// Package figure is the arithmetic of benchmarks: a [Row] of a report, and its quantiles and ratio.
//
//	row := figure.Row{Name: "exec", Baseline: "native"}
//	row.Times(times, figure.Median(native))
//
// It keeps nothing and must not know what is measured.
package figure
