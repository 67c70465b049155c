// Package mcp is the command "hortus mcp": it serves sandboxes and tasks to a coding agent on standard input and output, and
// writes the configuration of the programs that start it so.
//
//	hortus mcp                              # what a client starts
//	hortus mcp install claude-code --write  # tell a client to start it
//
// Standard output has the protocol alone. A file of another program is only ever added to: a file that the package cannot read,
// or that has another server of the same name, stays as it is. The package must not know what the tools do.
package mcp
