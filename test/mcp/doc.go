// Package mcp tests the tools for coding agents with a client of the protocol, in both of its eras and over both transports,
// against a daemon with real sandboxes. It has only tests.
package mcp
