// Package remote runs sandboxes on the machines of a service, such as E2B or Daytona. A backend is a [Service], which
// speaks the service's API, and the rest is here:
//
//	b, err := remote.New(remote.Config{Service: service, Dir: dir, Guest: guest, Layers: layers, Workspaces: workspaces})
//
// Start creates a sandbox of the service, uploads Hortus's own guest and starts it there. From then on everything is as
// on every backend: commands, files, terminals and ports are streams to the guest, which package tunnel carries through
// the service's URL for a port. Of the service only [Service]'s methods are used.
//
// # What is trusted
//
// The service runs the sandbox, so it can read and change everything in it: the result of a command or of a gate there
// is as true as the service. It can do nothing to this host and to other sandboxes: answers have a maximum size and a
// time, redirects are not followed, IDs and addresses are checked, a stream reaches only the guest that knows the
// token of its sandbox, and the API key is removed from what a service says.
//
// What cannot be enforced is refused by Validate: an egress policy, layers of this host, limits that need a control
// group, read-only files in a workspace.
//
// # Lives
//
// A sandbox of the service has a deadline of [Lease] from now, which its machine moves on while this daemon lives. A
// daemon that dies leaves the sandbox for that long: the next one adopts it, or reclaims it. They are found by labels,
// with the ID of the data directory, and by a record in Config.Dir that is written before the sandbox is created.
//
// A durable workspace is copied to the sandbox at the start, and what has changed is copied back by Kill.
//
// The package must not know a concrete service, the manager's internals, or what commands mean.
package remote
