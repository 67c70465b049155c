// Package servicetest plays a service manager for tests of what notifies one.
//
//	m := servicetest.Listen(t)
//	... a daemon with Getenv: m.Getenv ...
//	m.Hears(t, "READY=1")
//
// The package must not know a daemon. A Manager stops with its test.
package servicetest
