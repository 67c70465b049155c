// Package durable is the workspaces that people use by name: it makes them, finds them, says who uses them,
// shows what was changed in them and gives their files as an archive.
//
//	s := durable.New(durable.Config{Store: workspaces, Layers: layers, Rows: rows, Live: manager.List})
//	w, err := s.Create(ctx, account, api.CreateWorkspace{Name: "shop"})
//	ws, err := s.Mount(ctx, w.ID) // for a sandbox
//
// A workspace lives until Remove; sandboxes, daemons and garbage collection do not end it. Who may use which
// workspace is for the caller to decide: methods that take an account make or find what belongs to it.
//
// Everything that a diff or an archive shows was written by a guest. The store reads it safely; this package
// limits how much of it is read and sent, and says what was left out.
//
// The package must not know HTTP, SQL or the command line. It has no goroutine and needs no Close.
package durable
