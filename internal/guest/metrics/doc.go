// Package metrics reports how much processor time, memory and disk the sandbox uses.
//
//	handlers[envd.PathMetrics] = metrics.New(cfg).Serve
//
// It reads /proc when it is asked, and keeps the last processor time, to compute a share.
// It starts no goroutine, and enforces no limit: package memory does.
package metrics
