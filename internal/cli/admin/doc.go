// Package admin is the commands about a daemon and its machine: daemon, serve, doctor, config,
// context, key, gvisor, df, gc, model and uninstall.
//
// A command is a struct of flags with a Run method, which the parser of package cli fills
// and calls:
//
//	type ServeCommand struct{ Listen string }
//	func (c *ServeCommand) Run(ctx app.Context, a *app.App) error
//
// A command with a method OnlyHere is refused with --host; one with WithoutConfig runs
// although the configuration is invalid. It must not know the commands of the other packages.
// Nothing outlives a Run.
package admin
