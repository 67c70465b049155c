// Package memory enforces the sandbox's memory limit if its host cannot: it kills the process
// group that uses the most memory.
//
//	go memory.New(cfg, processes).Run(ctx)
//
// A [Watcher] polls until its context ends, so the host must stop faster growth. It knows
// commands only to record the cause of their end.
package memory
