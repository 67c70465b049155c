// Package gate knows what decides about a change of a repository: the command that its tests are run with, the files that are tests
// or rule over them, and what the tests reported.
//
// [Detect] finds the command in a commit, never in a workspace that an agent worked in. It reads scripts and targets of a Makefile as far
// as they are simple, to know what they run, and executes nothing. [Absent] names the program without which a gate could not
// start. [Watched] tells the files that a change must
// not win by: with them as they were, the gate must pass as well. [Signs] names the lines of a change that can end, watch or rewrite a
// run of tests. Each has honest uses, so a sign decides nothing: it is a caution for the person who takes the result. Signs reads text,
// not a syntax tree: a program that hides what it does is not seen.
//
// [Reports] weigh what the tests of a gate reported (package report): which ran, which failed, which that passed before the work
// did not pass after it, and which failed before it too. A gate whose exit code is 0 does not pass if its tests say otherwise. Tests that
// failed may be run again alone, and pass if they pass in most of their runs.
//
//	run, err := check.Arm(ctx, sandbox, 0)
//	...                                   // run.Command is run, its stdout goes through run.Stdout
//	ran, err := gate.NewRan(ctx, sandbox, run, exec)
//	for again := ran.Again(check); again != nil; again = ran.Again(check) {
//		...                               // again is run in another sandbox, in which no earlier run can forge its report
//		ran.Take(check, more)
//	}
//	ran.Adjust(check)
//	err = gate.Reports{Checks: checks, Ran: []*gate.Ran{ran}, Need: gate.AllTests, File: file}.Weigh(&g)
//
// Reports come from a sandbox in which the code under test ran: they are signed with a key of the run, bounded, and
// never trusted to say more than the exit code.
//
// The package keeps nothing, and starts no goroutine. It must not know git, how sandboxes are made, or who made a change.
package gate
