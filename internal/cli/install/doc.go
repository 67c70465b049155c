// Package install writes and finds the files that Hortus puts outside its data directory:
// completion scripts and the systemd unit. It must not know what is in them, except for
// [Mark], by which uninstalling recognizes them. A file without the mark is never replaced.
//
//	path, err := install.CompletionPath(a, "bash")
//	err = install.Write(path, script)
package install
