// Package probe finds out what a backend can do on this host. It tries instead of looking:
// it builds a sandbox up to the point where its guest would start, and explains the step
// that failed.
//
// It must not know how sandboxes are managed, saved or adopted.
//
// A [Prober] holds the last report. What a trial makes is removed before it returns; what a
// daemon that was killed has left is removed by the next one with RemoveLeftovers.
//
//	p := probe.New(probe.Config{Name: "container", Dir: dir, Launcher: l, ...})
//	report := p.Report(ctx)
package probe
