// Package port forwards a client's connection to a TCP port of the sandbox's loopback.
//
//	handlers[envd.PathPort] = port.Serve
//
// A stream owns two copying goroutines and ends when either side ends; a half-close is
// forwarded. The package dials loopback addresses only, takes only a port number from the
// request, and does not interpret what it copies.
package port
