// Package acp speaks the Agent Client Protocol, version 1, as its client: JSON-RPC 2.0, one message a line, with an agent
// that is a program somewhere else.
//
//	c := acp.New(stream, acp.Config{Name: "hortus", Version: "1", Update: func(u acp.Update) { ... }})
//	defer c.Close()
//	agent, err := c.Initialize(ctx)
//	...
//	s, err := c.NewSession(ctx, "/workspace")
//	...
//	turn, err := c.Prompt(ctx, s.ID, "Fix the failing test")
//
// The agent is offered no files and no terminals of the client: it works on its own. A request for a permission is
// answered with the first option that allows once, because the place where the agent runs is what limits it. Every other
// request is answered with an error.
//
// # Trust
//
// The agent is hostile: the length of a line, the number of lines that are no messages, of requests that are not read, and
// the texts of updates are bounded, and an agent that exceeds a bound is left.
//
// # Lives
//
// A [Client] owns the stream and two goroutines until Close, which closes the stream and waits for them: Close of the
// stream must end its Read and its Write. The end of a context ends a call: a turn is canceled with session/cancel, and
// given up after a while if the agent does not end it. No call waits for the agent to read.
//
// The package must not know where the agent runs, which program it is, or what it works on.
package acp
