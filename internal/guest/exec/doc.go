// Package exec serves the calls about commands: start, attach, list, input, signals.
//
//	maps.Copy(handlers, exec.New(ids, processes, false).Handlers())
//
// It decodes, calls package process, and encodes. It keeps nothing between two requests and
// starts no goroutine that outlives one. It knows nothing of pipes, pids
// or forks.
package exec
