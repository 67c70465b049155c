// Package server is the guest's side of the program sudo: it starts a command for a user
// of the sandbox as another one.
//
//	s, err := server.Listen(ids, processes)
//	s.Serve(ctx)
//
// The kernel tells who asks; only users of the sandbox may. Requests are bounded in size,
// time and number. A session owns a goroutine and a command; the command is killed when the
// connection ends. The package gives nobody more than a client of the sandbox's API gets who
// asks for that user, and knows nothing of HTTP.
package server
