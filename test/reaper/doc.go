// Package reaper runs the tests of a package below a process that ends what they leave.
//
// A daemon and its sandboxes outlive the process that started them, on purpose. A test
// that fails, panics or runs into its timeout would leave them on the machine, where they
// take processors and memory from the tests that follow. A test binary that starts some
// has
//
//	func TestMain(m *testing.M) { os.Exit(reaper.Run(m.Run)) }
//
// The binary then starts itself again as a child, in which the tests run, and becomes the
// parent of everything in the child that loses its own. When the child has ended, what is
// left has 20 seconds to end by itself. Then it is killed, and the run fails with a list
// of it. A run that fuzzes has no reaper.
//
// The package must not know any test.
package reaper
