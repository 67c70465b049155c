// Hortus-release builds the files of a release: an archive for each system, a Debian
// package for each Linux architecture, a container file for Linux, and SHA256SUMS. Builds
// are reproducible: the same commit and Go toolchain produce the same bytes, in any
// directory and at any time. Paths are trimmed, times are those of the commit, owners and
// modes are fixed, and nothing depends on the machine.
//
//	go run ./cmd/hortus-release -version v1.2.3 -out dist [-target linux/amd64]...
//
// Every archive contains the licenses of all modules that are linked into its binary.
// Linux binaries embed the small guest and gVisor for their architecture. Binaries for macOS
// and Windows are clients.
//
// It runs the Go command. It must not depend on more of the program than its three
// commands, the linker's variable for the version, the paths of embedded files, and the
// mark of files that "hortus uninstall" removes.
//
// # Reasons
//
// The Debian package is written with the standard library, about 200 lines, because a packaging
// library would link some hundred modules. It enables no service, and removal keeps the data,
// also on purge, since results of tasks are in it. Its copies of units and completions lack the
// mark by which hortus uninstall knows its files. The container file takes the release archive,
// so that the image has the binary that SHA256SUMS names.
package main
