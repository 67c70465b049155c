// Package sandbox is the commands about sandboxes, snapshots and templates: create, exec,
// shell, cp, forward, fork and so on.
//
// A command is a struct of flags with a Run method:
//
//	type sandboxTTLCmd struct{ TTL flags.Duration }
//	func (c *sandboxTTLCmd) Run(ctx app.Context, a *app.App) error
//
// It must not know tasks. Names, sizes and contents that come out of a sandbox are hostile:
// names are checked, sizes are bounded while they are read, and nothing is written through a
// link. A signal handler, a raw terminal and the connections of a forward end before Run
// returns.
package sandbox
