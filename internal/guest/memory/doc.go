// Package memory enforces the sandbox's memory limit if the host cannot: it kills the process
// that uses the most memory, as Linux does. Its parents continue.
//
//	go memory.New(cfg, processes).Run(ctx)
//
// A [Watcher] polls until its context ends; the host must stop growth that is faster than
// that. It depends on commands only to record why they ended.
package memory
