package disk

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// Config configures a file system.
type Config struct {
	// Bytes is the capacity for files and their indexes, Inodes the minimum number of files and directories.
	Bytes, Inodes int64
}

const (
	blockSize      = 4096
	blocksInGroup  = 8 * blockSize // what one block of bits describes
	inodeSize      = 256
	inodesInBlock  = blockSize / inodeSize
	descriptorSize = 32
	rootInode      = 2
	firstInode     = 11
	// maxBlocks is the maximum number of blocks, whose numbers have 32 bits.
	maxBlocks = 1 << 32
)

// Features of the file system. What the kernel need not know, what it has to know to read it, and to write it.
const (
	compatible   = 0x8 | 0x20 | 0x200      // attributes, indexed directories, no copies of the superblock
	incompatible = 0x2 | 0x40              // types in directories, extents
	readOnly     = 0x2 | 0x8 | 0x20 | 0x40 // large files, huge files, many directories, large inodes
	magic        = 0xEF53                  // of the superblock
	modeDir      = 0o040755                // of the root
	clean        = 1                       // the state of a file system that was unmounted
	remountOnErr = 2                       // read-only
)

// layout is where the parts of a file system are.
type layout struct {
	blocks, groups      int64
	inodes, tableBlocks int64 // of a group
	descriptorBlocks    int64
}

func plan(c Config) (l layout, err error) {
	if c.Bytes < blockSize || c.Inodes < 1 {
		return l, fmt.Errorf("a disk of %d bytes and %d inodes cannot be made", c.Bytes, c.Inodes)
	}
	data := (c.Bytes+blockSize-1)/blockSize + 1 // the root directory
	l.groups = 1
	for {
		l.inodes = (c.Inodes+firstInode+l.groups-1)/l.groups + inodesInBlock - 1
		l.inodes -= l.inodes % inodesInBlock
		l.inodes = min(l.inodes, blocksInGroup)
		l.tableBlocks = l.inodes / inodesInBlock
		l.descriptorBlocks = (l.groups*descriptorSize + blockSize - 1) / blockSize
		l.blocks = data + 1 + l.descriptorBlocks + l.groups*(2+l.tableBlocks)
		need := (l.blocks + blocksInGroup - 1) / blocksInGroup
		if need <= l.groups {
			break
		}
		l.groups = need
	}
	// The last group must have its own tables.
	if last := l.blocks - (l.groups-1)*blocksInGroup; last < 2+l.tableBlocks+1 {
		l.blocks += 2 + l.tableBlocks + 1 - last
	}
	if l.blocks >= maxBlocks || l.groups*l.inodes >= maxBlocks {
		return l, fmt.Errorf("a disk of %d bytes is too large", c.Bytes)
	}
	return l, nil
}

// first returns the first block of a group's tables: its bits of blocks, its bits of inodes, its inodes.
func (l layout) first(group int64) int64 {
	if group == 0 {
		return 1 + l.descriptorBlocks
	}
	return group * blocksInGroup
}

// in returns the number of blocks of a group, and how many of them are used.
func (l layout) in(group int64) (all, used int64) {
	all = min(blocksInGroup, l.blocks-group*blocksInGroup)
	used = 2 + l.tableBlocks
	if group == 0 {
		used += 1 + l.descriptorBlocks + 1 // the root directory
	}
	return all, used
}

// Format makes a file system in an empty file, and gives the file its size.
func Format(f *os.File, c Config) error {
	l, err := plan(c)
	if err != nil {
		return err
	}
	if err := f.Truncate(l.blocks * blockSize); err != nil {
		return err
	}
	descriptors := make([]byte, l.descriptorBlocks*blockSize)
	var free int64
	for g := range l.groups {
		d := descriptors[g*descriptorSize:]
		at := l.first(g)
		all, used := l.in(g)
		freeInodes, dirs := l.inodes, 0
		if g == 0 {
			freeInodes, dirs = l.inodes-(firstInode-1), 1
		}
		put32(d, 0, at)
		put32(d, 4, at+1)
		put32(d, 8, at+2)
		put16(d, 12, all-used)
		put16(d, 14, freeInodes)
		put16(d, 16, int64(dirs))
		free += all - used
		if err := writeBits(f, at, used, all); err != nil {
			return err
		}
		if err := writeBits(f, at+1, l.inodes-freeInodes, l.inodes); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(descriptors, blockSize); err != nil {
		return err
	}
	root := l.first(0) + 2 + l.tableBlocks
	if _, err := f.WriteAt(rootDirectory(), root*blockSize); err != nil {
		return err
	}
	if _, err := f.WriteAt(rootEntry(root), (l.first(0)+2)*blockSize+(rootInode-1)*inodeSize); err != nil {
		return err
	}
	_, err = f.WriteAt(superblock(l, free), 1024)
	return err
}

// writeBits writes a block of bits: the first ones are used, and those beyond all do not exist.
func writeBits(w io.WriterAt, block, used, all int64) error {
	b := make([]byte, blockSize)
	set := func(from, to int64) {
		for ; from < to && from%8 != 0; from++ {
			b[from/8] |= 1 << (from % 8)
		}
		for ; from+8 <= to; from += 8 {
			b[from/8] = 0xFF
		}
		for ; from < to; from++ {
			b[from/8] |= 1 << (from % 8)
		}
	}
	set(0, used)
	set(all, blocksInGroup)
	_, err := w.WriteAt(b, block*blockSize)
	return err
}

func rootDirectory() []byte {
	b := make([]byte, blockSize)
	const typeDir = 2
	put32(b, 0, rootInode)
	put16(b, 4, 12)
	b[6], b[7], b[8] = 1, typeDir, '.'
	put32(b, 12, rootInode)
	put16(b, 16, blockSize-12)
	b[18], b[19], b[20], b[21] = 2, typeDir, '.', '.'
	return b
}

// rootEntry is the inode of the root directory, whose content is one block.
func rootEntry(block int64) []byte {
	b := make([]byte, inodeSize)
	put16(b, 0, modeDir)
	put32(b, 4, blockSize)
	put16(b, 26, 2) // links
	put32(b, 28, blockSize/512)
	put32(b, 40, block)
	put16(b, 128, 32) // size of the fields beyond 128 bytes
	return b
}

func superblock(l layout, free int64) []byte {
	b := make([]byte, 1024)
	put32(b, 0, l.groups*l.inodes)
	put32(b, 4, l.blocks)
	put32(b, 12, free)
	put32(b, 16, l.groups*l.inodes-(firstInode-1))
	put32(b, 24, 2) // 1024 << 2 is the size of a block
	put32(b, 28, 2)
	put32(b, 32, blocksInGroup)
	put32(b, 36, blocksInGroup)
	put32(b, 40, l.inodes)
	put16(b, 54, 0xFFFF) // never check it
	put16(b, 56, magic)
	put16(b, 58, clean)
	put16(b, 60, remountOnErr)
	put32(b, 76, 1) // revision
	put32(b, 84, firstInode)
	put16(b, 88, inodeSize)
	put32(b, 92, compatible)
	put32(b, 96, incompatible)
	put32(b, 100, readOnly)
	rand.Read(b[104:120]) // its id
	rand.Read(b[236:252]) // the seed of directories' indexes
	b[252] = 1            // their hash
	put16(b, 348, 32)
	put16(b, 350, 32)
	return b
}

func put16(b []byte, at int, v int64) { binary.LittleEndian.PutUint16(b[at:], uint16(v)) }
func put32(b []byte, at int, v int64) { binary.LittleEndian.PutUint32(b[at:], uint32(v)) }
