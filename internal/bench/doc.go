// Package bench measures a running system, compared with a floor of this host and with other programs that
// do the same work.
//
// The name of a figure defines where its timing starts and ends. Rows that are compared are measured in the
// same run, alternating sample by sample, so that a busy host affects both; read the ratio.
//
// A measurement is a function of a run that reports rows, and a line in the table of bench.go. A way of
// creating sandboxes is a line in the table of ways.go: every measurement that creates sandboxes uses each way
// in turn. A rival is a function in its own file and a line in the table of rivals.go.
//
// The package uses the sandbox manager like any other client and owns the sandboxes that it creates: they are
// destroyed when a measurement ends, also after an error, and so are the processes, directories and images of
// rivals. It must not know a server, a store or a backend.
package bench
