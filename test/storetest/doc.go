// Package storetest is the conformance suite of store.Store. The tests of an implementation
// call [Run], and [Crash] with a child process that calls [AppendUntilKilled]; they add tests
// of the implementation itself (files, migrations).
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return openTest(t) })
//	}
//
// The suite must not know how a store stores its rows. Each test gets a store of its own and
// closes it at its end.
package storetest
