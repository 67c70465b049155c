package sparse

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// blockSize is the unit in which zeros are left out of a file, in bytes: that of
// most file systems' allocation.
const blockSize = 4 << 10

// Copy copies r into an empty file, from its beginning. Blocks of zeros become holes. An error of
// r leaves what came before it in the file.
func Copy(f *os.File, r io.Reader) error {
	buf, zeros := make([]byte, 16*blockSize), make([]byte, blockSize)
	var at int64
	for {
		n, err := fill(r, buf)
		if werr := writeBlocks(f, buf[:n], zeros, at); werr != nil {
			return werr
		}
		at += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return f.Truncate(at) // it may end with a hole
		case err != nil:
			return err
		}
	}
}

// fill reads until a buffer is full or there is an error. Unlike io.ReadFull it tells
// the end from a cut.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

// writeBlocks writes the blocks of a buffer that are not zeros, runs of them at once.
func writeBlocks(f *os.File, buf, zeros []byte, at int64) error {
	for len(buf) > 0 {
		n := 0
		for n < len(buf) {
			block := buf[n:min(n+blockSize, len(buf))]
			if bytes.Equal(block, zeros[:len(block)]) {
				break
			}
			n += len(block)
		}
		if n > 0 {
			if _, err := f.WriteAt(buf[:n], at); err != nil {
				return err
			}
		} else {
			n = min(blockSize, len(buf))
		}
		buf, at = buf[n:], at+int64(n)
	}
	return nil
}
