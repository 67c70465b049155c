// Package capture serves what leaves a sandbox. The sandbox's network redirects every outgoing
// TCP connection to [birth.CapturePort] and every DNS query to [birth.ResolverPort]; the guest
// asks the host for each connection, by name if the program has resolved one, and copies.
//
//	c, err := capture.Listen(capture.Config{Open: queue.Open, Hostname: cfg.Hostname})
//	go c.Run(ctx)
//
// The host decides. A connection that it refuses, or does not answer, is reset. A connection
// to the proxy port is passed to the host as it is.
//
// [Listen] must run before any command, so that no program can take a port. [Capture.Run] owns
// a goroutine for each connection and ends them with its context. When the guest is quiesced
// its streams end, which resets the connections that they carry; the listeners and the names
// stay, also over a save and a restore.
//
// Programs of the sandbox are not trusted: the number of connections is limited, and a
// connection without data holds no buffer. The package must not know a policy.
package capture
