// Package server is the guest's side of the program sudo: one user of the sandbox starts a
// command as another.
//
//	s, err := server.Listen(ids, processes)
//	s.Serve(ctx)
//
// The kernel identifies the client, which must be a user of the sandbox. Requests are limited
// in size, time and number. A session owns a goroutine and a command; the command is killed
// when the connection ends. The package grants no more rights than a client of the sandbox's
// API gets if it requests that user. It must not depend on HTTP.
package server
