// Package copied has the workspace of a sandbox that cannot have a mount of it, because the sandbox runs on another machine or in another
// program's container: its files are copied there, and what has changed is copied back.
//
//	f, err := copied.Attach(ctx, copied.Config{Layers: layers, Workspaces: workspaces}, spec.Workspace)
//	err = f.Pack(ctx, w, "", uid)                // before the first command
//	err = f.Durable().Replace(ctx, remaining, …) // whenever the changes are to be stored
//	f.Release()
//
// How an archive gets there, and which files have changed, is the backend's work. The package must not know backends.
package copied
