// Package bench measures a running system against this host's own floor and
// against other programs that do the same work.
//
// Every figure names its clock: where it starts and where it ends. What is
// compared is taken in the same run, sample by sample in turn, so that a noisy
// host disturbs both sides alike; the ratio is what to read.
//
// A measurement is a function of a run that reports rows, and has a line in the
// table of bench.go. A way of coming by a sandbox is a line in the table of
// ways.go: every measurement that creates sandboxes takes each way in turn. A
// rival is a function in a file of its own and a line in the table of rivals.go.
//
// The package drives the sandbox manager as any user of it does and owns the
// sandboxes that it makes: they are gone when a measurement ends, also after an
// error. So are the processes, directories and images of the rivals. It must not
// know a door, a store or a backend.
package bench
