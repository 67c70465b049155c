// Package main reads what "go test -json" printed and prints what a person asks of a
// test run: the slowest packages and tests, the flaky tests, and the skipped ones.
//
//	report -skips .ci/skips-root.txt root.json
//
// A test that failed and passed in a later run of the same file is flaky: it is printed
// with what its first failure said. A skipped test is listed with its reason. With
// -skips the command fails on a skipped test that the file does not expect, so that a
// run is green only if its tests really ran, and on a run without any test.
//
// It must not know how the tests were started.
package main
