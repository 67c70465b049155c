// Package exec serves the requests about commands: start, attach, list, input, signals.
//
//	maps.Copy(handlers, exec.New(ids, processes, false).Handlers())
//
// It decodes requests, calls package process, and encodes the results. It keeps no state
// between requests and starts no goroutine that outlives one. It must not depend on pipes,
// pids or forks.
package exec
