// Package secret keeps the secrets of accounts, which the egress proxy sends in the place of
// placeholders, and the records of their uses.
//
// A secret has a name, a source of its value, and the bindings that say in which requests it may be
// used. A stored value is in the store, encrypted. The other sources (an environment variable, a
// file, a command) are read on the daemon's machine at each use; the output of a command is kept in
// memory for the secret's lifetime. Anyone who sets such a secret chooses what the daemon reads and
// runs: package access lets only administrators do it.
//
// [Secrets.Value] is for the proxy alone, and [Secrets.KeyFor] for what calls models and forges; no
// server may have them. Errors name the source and never what was read.
//
//	all := secret.New(secret.Config{Rows: rows, Logger: log})
//	defer all.Close(ctx)
//	row, err := all.Set(ctx, account, "forge-token", secrets.Set{Value: value, Bindings: bindings})
//	value, err := all.Value(ctx, account, "forge-token")
//	charge, err := all.Reserve(ctx, secrets.Spender{Account: account, Secret: "forge-token", Task: task}, most)
//	all.Record(ctx, secrets.Use{Secret: "forge-token", Account: account, Sandbox: id})
//
// A secret may have budgets. [Secrets.Reserve] counts a request before it is sent, in one step of the
// store, and again when it has ended.
//
// [Secrets] has one goroutine, which writes the records; Close ends it and waits for it. A command
// runs in the goroutine of the caller that needs its output, and ends with it. Close Secrets after
// the proxy and before the store.
//
// The package must not know a store, a server, the proxy or grants.
package secret
