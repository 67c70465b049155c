package pgalloc

import (
	"unsafe"

	"gvisor.dev/gvisor/pkg/safemem"
	"gvisor.dev/gvisor/pkg/sentry/memmap"
)

// block returns the internal mapping of a range that is in the file. Access to it may
// fault if the file is truncated, so that it is not a safe block.
func (b *BaseFile) block(fr memmap.FileRange) safemem.Block {
	// The mapping is not memory of Go's, so the conversion is safe.
	base := *(*unsafe.Pointer)(unsafe.Pointer(&b.addr))
	return safemem.BlockFromUnsafePointer(unsafe.Add(base, fr.Start), int(fr.Length()))
}
