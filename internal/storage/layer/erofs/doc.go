// Package erofs writes a directory tree as one EROFS image, which the kernel can mount.
//
// The image is not compressed. It keeps what an overlay's lower layer needs: modes with setuid bits, owners,
// modification times in nanoseconds, hard links, symbolic links, devices (whiteouts among them), and attributes
// of the classes user, trusted, security and POSIX ACL. The end of a file and small files lie next to their
// inodes, so that a walk over small files reads few blocks.
//
// Each byte of a file is read once and written once; the tree's names and modes are in memory while an image is
// written. The package must not know what a tree is for, and mounts nothing. A tree must not change while it is
// written: a file whose size changes is an error.
//
// A [Builder] writes a tree that its caller describes, instead of that of a directory, and [Merge] builds one with others
// mounted in it.
//
//	t, err := erofs.Read(ctx, "/path/of/tree")
//	if t.Info().Entries > 1000 {
//		info, err := t.Write(ctx, file)
//	}
package erofs
