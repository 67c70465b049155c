// Package process starts commands, moves their output, ends them, and finds them again.
//
//	m, err := process.NewManager(cfg, process.Files{Spawner: spawner, Access: access})
//	go m.Reap()
//	p, err := m.Start(user, request, process.Options{ExecID: "a"})
//	err = m.Follow(p, client, 0, false) // until p has ended or the client has left
//
// # Lifetimes
//
// Only [Manager.Reap] collects exit statuses, of commands and, as init or subreaper, of
// orphans. A pump moves a command's output: it polls the command's pipes and the client's
// socket with poll(2), on the goroutine that calls [Manager.Follow]. It does not pass data
// to another goroutine, which would be most of the overhead over a plain fork. When the
// client leaves, another goroutine continues with the same pump, and the output stays in the
// command's log. The last commands that ended are kept for a while, so that a client that
// was disconnected still gets their end.
//
// A command's timeout does not run while the manager is paused, for example while the guest
// is saved on a disk.
//
// # Dependencies
//
// It must not depend on connections or the wire format: a client is an interface. What a command
// is, and how it starts, is decided by [Programs]: package spawn decides what one of [Files] inherits.
package process
