// Package mcp serves sandboxes and tasks to coding agents over the Model Context Protocol (MCP), in the version 2026-07-28
// and in the versions with an initialize handshake.
//
//	s := mcp.New(mcp.Config{Version: "1.2"})
//	err := s.ServeStdio(ctx, connect, os.Stdin, os.Stdout) // hortus mcp
//	handler, listener := mcp.NewHandler(mcp.HandlerConfig{Server: s, API: v1, Fail: fail}) // POST /mcp of hortus serve
//
// A tool does its work with a [hortus.dev/client.Client], over the API that every other client uses. So a tool can do nothing
// that the API does not allow its caller, and another account's identifiers are unknown to it. The handler has such a client for
// each request, which reaches the API inside the process as the principal of the request. The package must not know a store, a
// manager or an API key.
//
// State is in identifiers that each call names: there is no current sandbox. A call returns within [Config.Hold]. What takes
// longer continues in the daemon, and the call returns its identifier: exec_poll and task_show wait for the rest.
//
// What a sandbox printed, and what the names of its connections are, is untrusted. It is only ever a string in a structured
// result.
//
// The goroutines of a call end before it returns. The connections of a request inside the process end with the request; those that
// are left end with the listener.
package mcp
