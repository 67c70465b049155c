// Package server is the guest's side of the program sudo: it starts a command as one user
// of the sandbox for another.
//
//	s, err := server.Listen(ids, processes)
//	s.Serve(ctx)
//
// The kernel identifies the client, which must be a user of the sandbox. Requests are limited
// in size, time and number. A session owns a goroutine and a command; the command is killed
// when the connection ends. The package grants no more than a client of the sandbox's API
// gets when it asks for that user. It knows nothing of HTTP.
package server
