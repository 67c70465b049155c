// Package client is the Go SDK of Hortus.
//
// A [Client] calls one daemon, over its unix socket ([Unix]) or over HTTP ([Remote]). It has
// a service for each kind of thing: Sandboxes, Snapshots, Templates, Tasks, Runs, Roles, Keys
// and Provisions. [SandboxService.Create] gives a [Sandbox]; its [Sandbox.Command] gives a
// [Cmd] that works like the one of os/exec, but runs in the sandbox:
//
//	c := client.Unix("/var/lib/hortus/hortus.sock")
//	defer c.Close()
//	s, err := c.Sandboxes.Create(ctx, api.CreateSandbox{})
//	...
//	defer s.Kill(ctx)
//	out, err := s.Command(ctx, "python3", "-c", "print(6*7)").Output()
//
// Errors are [hortus.dev/api.Error]s: api.KindOf gives the kind, api.HintOf what
// to do. A command that ran and did not succeed is an [*ExitError].
//
// The package imports nothing of the project but api and api/envd. It must not
// start a daemon, read configuration, or print. A Client may be used by several
// goroutines; a Cmd belongs to one.
package client
