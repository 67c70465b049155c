// Package gittest has helpers for tests that need repositories: it runs the git program of
// this machine as a user would, with a fixed identity and time, and fails the test on an
// error. Directories are removed with the test.
//
//	dir := gittest.NewCheckout(t, map[string]string{"a.txt": "one\n"})
//	gittest.Git(t, dir, "tag", "v1")
//
// It must not know package git or the packages below it, which are tested with it.
package gittest
