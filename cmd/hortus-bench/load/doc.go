// Package load is the client and the server of the measurement of outgoing connections, as a
// program that reads a request from each line of its input and writes a line with the answer:
//
//	hortus-bench-load serve   # reads a Listen, answers with a Served, serves until its input ends
//	hortus-bench-load drive   # reads any number of Jobs, answers each with a Result
//
// The same program runs in a sandbox and on the host, whatever is between it and the server, so
// that the difference of two figures is what is between. The binary of hortus-bench is this
// program too, if its name is [Argv0].
//
// It does not verify certificates: a client has the same work no matter who signed them.
//
// The package must not know Hortus: neither sandboxes nor the daemon.
package load
