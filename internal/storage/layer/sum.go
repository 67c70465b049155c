package layer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// sumChunk is the size of the parts of a file that are hashed side by side, in bytes.
	sumChunk = 4 << 20
	// sumWorkers is the maximum number of parts that are hashed at a time.
	sumWorkers = 4
	// sumPrefix names the form of a sum.
	sumPrefix = "sha256-4m-"
)

// sum returns the hash of a file of that size: SHA-256 of its size and of the SHA-256 of each
// part of 4 MiB.
func sum(ctx context.Context, f *os.File, size int64) (string, error) {
	parts := (size + sumChunk - 1) / sumChunk
	hashes := make([][sha256.Size]byte, parts)
	errs := make([]error, min(sumWorkers, runtime.GOMAXPROCS(0)))
	var next atomic.Int64
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			buf := make([]byte, min(sumChunk, size))
			for {
				n := next.Add(1) - 1
				if n >= parts || errs[i] != nil {
					return
				}
				if errs[i] = ctx.Err(); errs[i] != nil {
					return
				}
				part := buf[:min(sumChunk, size-n*sumChunk)]
				if _, err := f.ReadAt(part, n*sumChunk); err != nil {
					if errors.Is(err, io.EOF) {
						err = io.ErrUnexpectedEOF
					}
					errs[i] = err
					return
				}
				hashes[n] = sha256.Sum256(part)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	all := sha256.New()
	_ = binary.Write(all, binary.LittleEndian, size)
	for _, h := range hashes {
		all.Write(h[:])
	}
	return sumPrefix + hex.EncodeToString(all.Sum(nil)), nil
}
