// Hortus-pack compresses an executable of gVisor for the binary that embeds it: see package embedded.
//
//	go run ./cmd/hortus-pack FROM TO
package main
