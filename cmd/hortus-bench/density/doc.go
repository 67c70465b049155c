// Package density makes children of one sandbox until their host is full, and has each of them do
// something.
//
//	result, err := density.Fill(ctx, density.Config{Forker: m.Forker, Sandboxes: m.Sandboxes, Parent: id, Most: 200, Batch: 10,
//		Room: room, Command: command, Write: write})
//
// Fill returns when all children that it made are destroyed. It starts no goroutine and keeps nothing.
// The package must not know what a row of a measurement is, nor how much memory a host has.
package density
