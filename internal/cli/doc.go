// Package cli is the command line of Hortus: the tree of commands, the parser, the help
// and the exit codes. [Main] runs one command.
//
//	os.Exit(cli.Main(ctx, os.Args[1:], env, connect))
//
// The commands are in packages of their own: sandbox (sandboxes, snapshots, templates), task
// (programs and repositories), admin (the daemon and this machine) and completion (shells).
// They depend on app, the run of one command.
//
// It calls a daemon through the package client alone and must not know how one is found or
// started (that is handed to [Main]), nor any part of the daemon: what a command can do,
// every other client can do.
//
// The verified program's or the command's own output goes to stdout, byte for byte;
// everything else goes to stderr. Text from a guest or a model is sanitized before it is
// shown in a line of Hortus's own.
//
// Nothing here outlives Main: every goroutine that a command starts is waited for or blocked
// in a read of stdin, which belongs to the process.
//
// # Reasons
//
// The grammar is alecthomas/kong's: a command is a struct, each flag has its variable and its
// help beside it, so that they cannot disagree, and a bad value names its flag.
package cli
