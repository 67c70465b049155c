// Package bench measures a running system against this host's own floor.
//
// Every figure names its clock: where it starts and where it ends. What is
// compared is taken in the same run, sample by sample in turn, so that a noisy
// host disturbs both sides alike; the ratio is what to read.
//
// The package drives the sandbox manager as any user of it does and owns the
// sandboxes that it makes: they are gone when a measurement ends, also after an
// error. It must not know a door or a store.
package bench
