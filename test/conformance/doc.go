// Package conformance runs the test suite of isolation backends against every backend of
// this build, with the real guest and the real host template, as the user that runs the
// tests.
package conformance
