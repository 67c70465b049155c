// Package outside plays what is outside of a sandbox, for tests of its outgoing connections: it
// accepts the streams of the guest and answers as servers would. It reaches no network.
//
//	o := outside.Serve(t, machine)
//	...
//	o.WantAsked(t, envd.EgressConnect, outside.OpenName+":7")
//
// It serves until the test ends, which waits for its goroutines. The package must not know a
// backend.
package outside
