// Package opencode talks to the server of opencode ("opencode serve") as its client: requests over HTTP, and its reports as
// server-sent events.
//
//	c := opencode.New(opencode.Config{Dial: dial, Password: password, Update: func(u acp.Update) { ... }})
//	defer c.Close()
//	version, err := c.Ready(ctx)
//	...
//	id, err := c.NewSession(ctx)
//	...
//	turn, err := c.Prompt(ctx, id, "Fix the failing test")
//
// Its reports and the ends of its turns are those of package acp, so that who drives an agent need not know how it is reached.
// A request for a permission is allowed once, because the place where the server runs is what limits it. The tool that asks a
// person is off, and a question that comes all the same is rejected.
//
// # What counts
//
// The events of a turn say soon what happens. What counts are the state of the session and its messages, which are read when
// the events were interrupted and at the end of the turn. So nothing is lost with a connection, and nothing is reported twice.
//
// # Trust
//
// The server is hostile: the length of an answer and of an event, the numbers of messages and parts, the texts of updates, the
// time of a request, the silence of the events and the number of connections are bounded, and a server that exceeds a bound
// is left.
//
// # Lives
//
// A [Client] has connections until Close, and no goroutine between calls. Prompt owns the goroutine that reads the events, and
// waits for it. The end of a context ends a call: a turn is aborted, and given up after a while if the server does not end it.
// The server and its sessions outlive the client.
//
// The package must not know where the server runs, or who started it.
//
// # Reasons
//
// The server is an agent of its own (opencode-server) and no mode of sessions, so that opencode
// is the same everywhere. Its port is reached as any port of a sandbox, so it outlives the
// task; a process on standard streams takes 17 to 22 s to start, and a second message to the
// server 1 to 2 s. A call that an abort ended is not reported as done, although opencode says
// so.
package opencode
