// Package main is the command forgeserver, which serves test/forgeserver by hand and for stories:
//
//	go run ./test/forgeserver/cmd/forgeserver -kind gitlab -token T -repo group/name=DIR
//
// DIR is a bare git repository. It prints its address and serves until it is
// killed. The token may write; -requests prints the merge requests to the standard
// output, one line of JSON for each state that they had, as they change.
package main
