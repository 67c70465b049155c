// Package main is the command programs: it copies the programs that tests build to a directory,
// for a user who has no compiler's cache: hortus, and below tools those of the gvisor backend.
//
//	programs DIR
package main
