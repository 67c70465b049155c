// Package conformance runs the suite of isolation backends against every backend
// of this build with the real guest and the real host template, as whatever user
// runs the tests.
package conformance
