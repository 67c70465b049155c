// Package main shows the Go SDK: a sandbox with a command and files, and a task
// with its events. It speaks to a daemon that runs, by the path of its socket:
//
//	go run ./examples/sdk ~/.local/share/hortus/hortus.sock
package main
