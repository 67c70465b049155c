package sparse

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// CopyFile copies a file into an empty one. Gaps stay gaps. Where the file system can, the files share their blocks, and nothing is
// copied.
func CopyFile(ctx context.Context, to, from *os.File) error {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return nil
	}
	fi, err := from.Stat()
	if err != nil {
		return err
	}
	return CopyContent(ctx, int(to.Fd()), int(from.Fd()), fi.Size())
}

// CopyContent copies so many bytes of a file, without its gaps, into an empty one. The arguments are descriptors.
func CopyContent(ctx context.Context, to, from int, size int64) error {
	for at := int64(0); at < size; {
		data, err := unix.Seek(from, at, unix.SEEK_DATA)
		if err == unix.ENXIO { // a gap up to the end
			break
		}
		if err != nil { // a file system without gaps
			data = at
		}
		end, err := unix.Seek(from, data, unix.SEEK_HOLE)
		if err != nil || end > size {
			end = size
		}
		if err := copyRange(ctx, to, from, data, end); err != nil {
			return err
		}
		at = end
	}
	return unix.Ftruncate(to, size)
}

// copyPart is how much is copied before the context is checked, in bytes.
const copyPart = 64 << 20

// copyRange copies the bytes from at to end.
func copyRange(ctx context.Context, to, from int, at, end int64) error {
	for at < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		in, out := at, at
		n, err := unix.CopyFileRange(from, &in, to, &out, int(min(end-at, copyPart)), 0)
		switch {
		case err == unix.EXDEV || err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP:
			return readRange(ctx, to, from, at, end)
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		at += int64(max(n, 0))
	}
	return nil
}

// readRange is copyRange for file systems that cannot copy.
func readRange(ctx context.Context, to, from int, at, end int64) error {
	buf := make([]byte, 256<<10)
	for at < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Pread(from, buf[:min(int64(len(buf)), end-at)], at)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		for done := 0; done < n; {
			m, err := unix.Pwrite(to, buf[done:n], at+int64(done))
			if err != nil {
				return err
			}
			done += m
		}
		at += int64(n)
	}
	return nil
}
