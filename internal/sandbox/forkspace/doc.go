// Package forkspace has the workspaces of the children of one fork: each child has a fork of its parent's durable
// workspace, as it was at the instant of the parent's memory.
//
//	s, err := forkspace.Open(ctx, forkspace.Config{Forks: forks, Parent: parent, Row: row, Report: report, Count: 5})
//	defer s.Close()
//	saved, err := machine.Save(ctx, dir, sandbox.SaveOptions{Fork: true, Standstill: s.Standstill()})
//	s.Others(ctx)
//	ws, err := s.Of(ctx, i, &child) // for the child number i
//	... // start it
//	err = s.Keep(ctx, i)
//
// The first workspace is a copy that is made while the parent is paused. The others are made of that one, before a
// child uses it. Until Keep a workspace belongs to a task, or to nobody: Close removes what no child has, and after a crash the
// next daemon does.
//
// A nil [Set] is that of a parent without a workspace: its methods do nothing. The first copy may have a goroutine of its
// store until Others or Close. The package must not know
// how a sandbox is saved or started, nor how a workspace is stored.
//
// # Reasons
//
// The workspace is copied and not linked, because a running parent would write into the links.
// No mount is exchanged: gVisor opens a mount's files again by their paths. The host freezes
// the control group as well, since keeper and kernel are not trusted. A workspace belongs to
// nobody until its child runs, so that whatever a crash leaves has one rule.
package forkspace
