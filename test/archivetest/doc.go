// Package archivetest tests implementations of archive.Blobs: all must pass the same tests, with archives that are
// whole, damaged and hostile.
//
//	archivetest.Run(t, func(t *testing.T) archive.Blobs { return archive.Dir{Path: t.TempDir()} })
//
// [Server] is an S3 server in this process; [Gateway] is one that others use in production, for the soak tier.
//
// The package is for tests alone.
package archivetest
