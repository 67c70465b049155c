// Package memory enforces the sandbox's memory limit if the host cannot: it kills the process
// group that uses the most memory.
//
//	go memory.New(cfg, processes).Run(ctx)
//
// A [Watcher] polls until its context ends; the host must stop growth that is faster than
// that. It depends on commands only to record why they ended.
package memory
