// Package metrics reports how much processor time, memory and disk the sandbox uses.
//
//	handlers[envd.PathMetrics] = metrics.New(cfg, watcher).Serve
//
// It reads /proc for each request, and keeps the last processor time to compute the use since
// then. It starts no goroutine. It enforces no limit: package memory does.
package metrics
