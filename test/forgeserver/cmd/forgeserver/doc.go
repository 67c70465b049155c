// Package main is the command forgeserver, which runs test/forgeserver, for manual tests
// and for stories:
//
//	go run ./test/forgeserver/cmd/forgeserver -kind gitlab -token T -repo group/name=DIR
//
// DIR is a bare git repository. The command prints its address and serves until it is
// killed. The token may write. With -requests it prints each merge request to standard
// output whenever the request changes, as one line of JSON.
package main
