// Package port leads a client's connection to a TCP port of the sandbox's loopback.
//
//	handlers[envd.PathPort] = port.Serve
//
// A stream owns two copying goroutines and ends with either side; the end of one half is
// passed on. It dials loopback addresses only, with a number from the request and nothing
// else of it, and knows nothing of what is spoken.
package port
