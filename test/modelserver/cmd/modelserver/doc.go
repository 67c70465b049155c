// Package main is the command modelserver: it serves a scenario of package modelserver
// on an address, for manual tests of a client:
//
//	go run ./test/modelserver/cmd/modelserver -listen 127.0.0.1:8088 scenario.txtar
//
// It serves until it is killed, and has the same dependencies as that package.
package main
