// Package measure measures a daemon that it opens in its own process, compared with a floor of this host and
// with other programs that do the same work.
//
//	b, err := measure.Open(ctx, measure.Config{Daemon: cfg})
//	...
//	defer b.Close(ctx)
//	err = b.Run(ctx, measure.Request{N: 200, Only: []string{"exec"}}, report, progress)
//
// The name of a figure defines where its timing starts and ends. Rows that are compared are measured in the
// same run, alternating sample by sample, so that a busy host affects both; read the ratio.
//
// A measurement is a function of a run that reports rows, and a line in the table of bench.go. A way of
// creating sandboxes is a line in the table of sandboxes.go: every measurement that creates sandboxes uses
// each way in turn. A rival is a value in rivals.go, runc.go or runsc.go and a line in the table of rivals.go.
//
// The measurement "api" speaks to the daemon as its clients do, with package client, and so are keys and
// secrets created. The others are inside of it: the clock of a row is that of a call of the sandbox manager,
// some rows need a sandbox that no pool had ready, or the wire of the guest, and the memory and descriptors
// that are counted are those of the daemon's process.
//
// A Bench owns its daemon and the sandboxes that it creates: they are destroyed when a measurement ends, also
// after an error, and so are the processes, directories and images of rivals. The package must not know a
// store or a backend.
package measure
