// Package world opens whole daemons for tests, and what their sandboxes reach.
//
//	func TestMain(m *testing.M) { world.Main(m) }
//
//	w := world.Open(t, world.Config{GVisor: true})
//	sandbox, err := w.Client.Sandboxes.Create(t.Context(), api.CreateSandbox{})
//
// A [World] is a daemon in the test's process. It serves its socket and a TCP port, and ends with
// the test. Clients and other programs reach it as they reach every daemon; [daemon.Inside] and
// [World.DB] show what no client sees. [Connect] starts a daemon in a process of its own, as
// commands do. [Outside] are servers with public names on this machine.
//
// A test that needs a daemon of its own takes one: what costs time in a new data directory, the
// template of the host, is built once for each test binary.
//
// The package must not know what a test is about.
package world
