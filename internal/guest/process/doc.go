// Package process starts commands, moves their output, ends them, and finds them again.
//
//	m, err := process.NewManager(cfg, spawner, access)
//	go m.Reap()
//	p, err := m.Start(user, request, process.Options{ExecID: "a"})
//	err = m.Follow(p, client, 0, false) // until p has ended or the client has left
//
// # How its things live and die
//
// [Manager.Reap] alone learns exit statuses: as init or subreaper it collects orphans as
// well as commands. A command's output is moved by a pump: raw poll(2) over its pipes and
// the client's socket, on the goroutine that calls [Manager.Follow], without handing data
// to another goroutine, which is most of what a stock server adds to the time of a fork. When the
// client leaves, another goroutine continues with the same pump, and the output stays in the
// command's log. The last commands that ended are kept for a while, so that a client that
// was away still gets their end.
//
// A lifetime stops while the manager is paused: time that a saved guest spends on a disk
// is not the command's.
//
// # What it must not know
//
// It knows no connection and no wire: a client is an interface. Package spawn decides what
// a command inherits.
package process
