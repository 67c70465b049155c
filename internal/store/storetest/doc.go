// Package storetest is the suite that every store passes. An implementation's
// own tests call [Run], and [Crash] with a child process that ends in
// [AppendUntilKilled]; they add what only that implementation can show (files,
// migrations).
//
// The suite must not know how a store keeps its rows.
package storetest
