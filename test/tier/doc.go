// Package tier sorts the tests of this module by cost.
//
//   - T0: tests of pure packages with fake clocks. "make check" runs them.
//   - T1: everything that "go test ./..." runs: T0, and tests with real sandboxes.
//   - T2: storms, load and other tests that take minutes. "make soak" runs them. Each
//     has a small counterpart in T1, or is a test of T1 with a larger [Count].
//
// A test of T2 calls [Soak] in its first line. CI runs T1 as root and then, as an ordinary
// user, the tests of T1 that depend on the user. A test that does not depend on the user
// calls [AnyUser]:
//
//	func TestTransfer(t *testing.T) {
//		tier.AnyUser(t)
//		...
//	}
//
// The package must not depend on any test.
package tier
