// Package evidence weighs what the tests of a gate reported: which ran, which failed, and which that passed before the work did
// not pass after it. A gate whose exit code is 0 does not pass if its tests say otherwise.
//
//	run, err := command.Arm(ctx, box, 0)
//	...                                   // run.Command is run, its stdout goes through run.Stdout
//	err = evidence.Gate{Commands: commands, Runs: runs, Need: evidence.AllTests, File: file}.Weigh(ctx, box, &gate)
//
// Reports come from a sandbox in which the code under test ran: they are signed with a key of the run, bounded, and
// never trusted to say more than the exit code. The package keeps nothing. It must not know what a task is, nor who
// made a change.
package gate
