// Package sandboxtest is the conformance suite of isolation backends. A backend
// is one when [Run] passes: every case names the capabilities that it needs, and
// a case whose capability the backend's report lacks is skipped with the reason
// that the report gives.
//
// The suite drives a backend through its contract and the guest's wire alone, so
// the same cases hold for every backend.
package sandboxtest
