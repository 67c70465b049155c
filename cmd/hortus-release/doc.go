// Hortus-release builds what is handed out: an archive for each system, for Linux a Debian
// package of each architecture and a container file too, and the sums of all. Two builds
// of one commit by one Go toolchain give the same bytes, wherever the source lies and
// whenever they run: paths are trimmed, times are those of the commit, owners and modes
// are fixed, and nothing of the machine gets in.
//
//	go run ./cmd/hortus-release -version v1.2.3 -out dist [-target linux/amd64]...
//
// Every archive has the terms of all modules that are linked into its binary.
// Linux binaries carry the small guest and gVisor of their own architecture. Those for macOS
// and Windows are clients.
//
// It runs the Go command and must not know more of the program than its
// three commands, the linker's variable for the version, the place of what is embedded,
// and the mark of files that "hortus uninstall" removes.
package main
