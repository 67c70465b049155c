// Package client is the Go SDK of Hortus.
//
// A [Client] speaks to one daemon, over its unix socket or any other connection.
// [Client.CreateSandbox] gives a [Sandbox]; its [Sandbox.Command] gives a [Cmd]
// that works like the one of os/exec, with a computer in between:
//
//	c := client.Unix("/var/lib/hortus/hortus.sock")
//	defer c.Close()
//	s, err := c.CreateSandbox(ctx, api.CreateSandbox{})
//	...
//	defer s.Kill(ctx)
//	out, err := s.Command(ctx, "python3", "-c", "print(6*7)").Output()
//
// Errors are [hortus.dev/api.Error]s: api.KindOf tells what sort, api.HintOf what
// to do. A command that ran and did not succeed is an [*ExitError].
//
// The package imports nothing of the project but api and api/envd. It must not
// start a daemon, read configuration, or print. A Client may be used by several
// goroutines; a Cmd belongs to one.
package client
