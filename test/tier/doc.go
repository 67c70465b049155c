// Package tier sorts the tests of this module by cost.
//
//   - T0: tests of pure packages with fake clocks. "make check" runs them.
//   - T1: everything that "go test ./..." runs: T0, and tests with real sandboxes.
//   - T2: storms, load and other tests that take minutes. "make soak" runs them; each
//     has a small counterpart in T1, or is one with a larger [Count].
//
// A test that belongs to T2 calls [Soak] in its first line. CI runs T1 as root and then,
// as an ordinary user, those of its tests that depend on the user; a test that does not
// calls [AnyUser]:
//
//	func TestTransfer(t *testing.T) {
//		tier.AnyUser(t)
//		...
//	}
//
// The package must not know any test.
package tier
