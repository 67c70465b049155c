// Package box runs commands in a sandbox and collects their output within bounds. It is
// what tasks, pieces of code and the inventory of a template share.
//
// A [Box] is one sandbox with the client of its guest: it runs commands ([Box.Run]), starts
// jobs beside them ([Box.Start]), and reads, writes and lists files.
//
//	b, err := box.Open(ctx, m.Guests, m.Sandboxes, row)
//	...
//	defer b.Close(ctx)
//	x, err := b.Run(ctx, api.ExecRequest{Args: []string{"make", "test"}}, func(stream string, p []byte) error {
//		_, err := os.Stdout.Write(p)
//		return err
//	})
//
// [Collect] reads a command that another user started into bounded [Text]s.
//
// A Box lives until Close, which kills its sandbox and waits for its jobs. A guest is not
// trusted: what it sends is counted, and a command that it does not end is ended with its
// sandbox. The package must not know what a command is for.
package box
