// Package reaper runs the tests of a package below a process that kills what they leave.
//
// A daemon and its sandboxes outlive the process that started them, by design. A test
// that fails, panics or times out would leave them on the machine, where they use CPU time
// and memory that the following tests need. A test binary that starts daemons or sandboxes
// has
//
//	func TestMain(m *testing.M) { os.Exit(reaper.Run(m.Run)) }
//
// The binary then starts itself again as a child, which runs the tests, and adopts the
// child's orphaned processes. When the child has ended, the remaining processes have 20
// seconds to end by themselves. Then the reaper kills them, and the run fails with a list
// of them. A fuzzing run has no reaper.
//
// The package must not depend on any test.
package reaper
