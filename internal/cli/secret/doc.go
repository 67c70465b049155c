// Package secret has the commands for secrets: values that the egress proxy sends in the place of
// placeholders. It sets, lists, shows and removes secrets, and lists their uses.
//
// A binding, which says in which requests a secret may be used, has a form in text that
// [ParseBinding] reads and [FormatBinding] writes.
//
// A value comes from standard input, or from a source on the daemon's machine. It is never an
// argument: other users can list the arguments of a process, and shells keep a history.
//
// The package must not know the daemon: it speaks to the client. A command lives for one call.
//
//	type grammar struct {
//		Secret secret.Command `cmd:"" help:"..."`
//	}
package secret
