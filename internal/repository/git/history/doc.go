// Package history leaves files out of a history.
//
// [Filter] copies the stream of git fast-export to git fast-import without the changes of some
// paths. What fast-import makes of it are the same commits with the same authors, times and
// messages, as if those files had never existed; the hashes of the commits differ. Nothing of the
// stream is kept in memory but a line.
//
//	n, err := history.Filter(toImport, fromExport, func(path string) bool { return path == ".env" })
//
// A stream with a command that the package does not know is refused: it could add a file by
// another way. The package must not know git's program, nor why a file is left out.
package history
