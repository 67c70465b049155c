// Package command runs commands in sandboxes and keeps their records.
//
// A command is a record ([api.Exec]) that is stored before the command starts and gets its
// end exactly once, from the first that observes it: the reader of its output, a viewer that
// attached later, or the end of the sandbox. An exit code comes from the guest's reaper only;
// if the end was not observed, the state is "unknown" with a cause. A [Stream] that is closed
// early leaves the command running, and a goroutine of [Commands] continues to read for the
// record.
//
// A save of the sandbox's memory closes all streams. Each reader of a command then opens its
// stream again at the next byte; [life.Gate] prevents opening streams during a save.
//
//	set := command.NewSet(sandbox, gate, ended)
//	set.Boot(machine, nil)
//	stream, err := commands.Start(ctx, set, api.ExecRequest{Args: []string{"true"}}, nil)
//	for { ev, err := stream.Next(); ... } // io.EOF after the end
//
// The package must not know how sandboxes are created, saved or ended: it uses the state of
// one ([life.Sandbox]) and the client of its guest.
package command
