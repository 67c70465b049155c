// Package command runs commands in sandboxes and keeps their records.
//
// A command is a record ([api.Exec]) that is stored before the command starts and gets its
// end exactly once, from anyone who sees it first: the reader of its output, a viewer that
// attached later, or the end of the sandbox. An exit code comes from the guest's reaper
// alone; what nobody saw is "unknown" with a cause. A [Stream] that is closed early leaves
// the command running, and a goroutine of [Commands] reads on for the record.
//
// A save of the sandbox's memory cuts all streams. Anyone who reads a command then opens its
// stream again at the byte that comes next; [life.Gate] keeps streams from being opened in
// the middle of a save.
//
//	set := command.NewSet(box, gate, ended)
//	set.Boot(machine, nil)
//	stream, err := commands.Start(ctx, set, api.ExecRequest{Args: []string{"true"}}, nil)
//	for { ev, err := stream.Next(); ... } // io.EOF after the end
//
// The package must not know how sandboxes are made, saved or ended: it sees the state of
// one ([life.Sandbox]) and the client of its guest.
package command
