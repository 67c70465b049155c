// Package forgetest is the contract of forges as tests: [Run] takes the
// constructor of an implementation and holds it, against test/forgeserver with
// branches of a real git repository, to what internal/repository/forge promises. Attacks on
// the token have a control: a plain client, which gives it away.
//
// The package must not know one forge's API beyond what the server's faults name.
// Everything that a case starts ends with it.
package forgetest
