// Package runner runs commands in a sandbox and collects their output within bounds. It is
// what tasks, pieces of code and the inventory of a template share.
//
// A [Runner] is one sandbox with the client of its guest: it runs commands ([Runner.Run]), starts
// jobs beside them ([Runner.Start]), and reads, writes and lists files.
//
//	r, err := runner.Open(ctx, m.Guests, m.Sandboxes, row)
//	...
//	defer r.Close(ctx)
//	x, err := r.Run(ctx, api.ExecRequest{Args: []string{"make", "test"}}, func(stream string, p []byte) error {
//		_, err := os.Stdout.Write(p)
//		return err
//	})
//
// [Collect] reads a command that another user started into bounded [Text]s.
//
// A Runner lives until Close, which kills its sandbox and waits for its jobs. A guest is not
// trusted: what it sends is counted, and a command that it does not end is ended with its
// sandbox. The package must not know what a command is for.
package runner
