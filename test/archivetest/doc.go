// Package archivetest tests implementations of archive.Blobs: all must pass the same tests, with archives that are
// whole, damaged and hostile.
//
//	archivetest.Run(t, func(t *testing.T) archive.Blobs { return archive.Dir{Path: t.TempDir()} })
//
// The package is for tests alone.
package archivetest
