// Package app is one run of one command: the process it runs in ([Env]), the flags of every
// command, the configuration, the connection to a daemon, and how results and errors are
// printed. It must not know any command.
//
//	a := app.New(env, connect)
//	defer a.Disconnect()
//	c, err := a.Client(ctx) // this machine's daemon, or that of --host or of a context
//	...
//	return a.JSON(result)
//
// An App lives as long as its command. It opens one connection, when a command first asks
// for it; Disconnect closes it.
package app
