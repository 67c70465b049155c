// Package durabletest is the conformance suite of durable runs: a child process that is killed with SIGKILL
// at each boundary of each step and at random instants, and started again with the same files.
//
// The test binary of an implementation is its own child: TestMain calls [Child] if [ChildOf] says so, and a
// test calls [Run].
//
// The package must not know how runs are stored.
package durabletest
