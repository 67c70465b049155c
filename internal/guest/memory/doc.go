// Package memory enforces the sandbox's limit of memory where its host has no means to: it
// ends the process group that has most.
//
//	go memory.New(cfg, processes).Run(ctx)
//
// A [Watcher] looks at intervals until its context ends; what is faster than that is the
// host's to stop. It knows commands only to name the cause of their end.
package memory
