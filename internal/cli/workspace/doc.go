// Package workspace has the commands for workspaces: durable files that sandboxes and tasks use one after
// the other. It makes, lists, shows, compares, exports and removes them.
//
// It must not know the daemon: it speaks to the client. A command lives for one call. What it prints of file
// names and contents comes from sandboxes: on a terminal, control characters are escaped.
//
//	type grammar struct {
//		Workspace workspace.Command `cmd:"" help:"..."`
//	}
package workspace
