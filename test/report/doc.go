// Package main reads the output of "go test -json" and prints a summary of the test run:
// the slowest packages and tests, the flaky tests, and the skipped ones.
//
//	report -skips .ci/skips-root.txt root.json
//
// A test that failed and passed in a later run of the same file is flaky: it is printed
// with the output of its first failure. A skipped test is listed with its reason. With
// -skips the command fails if a test was skipped that the file does not list, so that a
// run succeeds only if its tests really ran. It also fails if no test passed.
//
// It must not depend on how the tests were started.
package main
