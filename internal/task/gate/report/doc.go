// Package report reads which tests a gate's command ran, and how each of them ended.
//
// An exit code can be given by the code under test: it may end the process, or change
// what its tests compare with. So a command that [For] knows is run by a runner whose
// report the host reads:
//
//	p := report.For("python3 -m unittest discover")
//	run := p.Arm(key, "/tmp/gate-x")
//	// write run.Files, run run.Command, pass its stdout through run.Stdout
//	r := run.Report(content of run.Path)
//
// A command that starts runners, such as "make test" or "npm test", runs as it stands: programs before those of the runners in
// the PATH, and variables that they read, let them report. Which runners there were, the report tells.
//
// [Report.Against] compares it with the report of the same command before the work, [Report.Since] only their failures.
// [Plan.Again] runs failed tests alone.
//
// Reports come from a sandbox in which hostile code ran. Each record of a runner of ours
// carries a sum that shows which runner made it, and where in the report; sizes and counts
// are bounded. A program that shares a process with the assertions and knows the runner can
// still read its key from memory: docs/tasks.md says what is left.
//
// Everything here is a function of names and bounded contents. The package must not know
// sandboxes, git or what a gate's result is used for.
//
// # Reasons
//
// A process apart could not report more truly: in each of these languages assertions are
// evaluated in the process of the code under test. A command with pipes or substitutions runs as
// it is, since a shell could hide the end of the runner.
//
// JUnit files say nothing of who wrote them, and the key of a command that starts runners can be read by all that it
// starts. So the reports of such a command may only add to its exit code: [Plan.Failing] is 0, its tests are never run again, and
// its failures are never only old.
package report
