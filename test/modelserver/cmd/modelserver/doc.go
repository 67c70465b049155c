// Package main is the command modelserver: it plays a scenario of package
// modelserver on an address, for a client that is tried by hand:
//
//	go run ./test/modelserver/cmd/modelserver -listen 127.0.0.1:8088 scenario.txtar
//
// It lives until it is killed, and must not know more than that package does.
package main
