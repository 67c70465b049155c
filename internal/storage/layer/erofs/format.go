package erofs

import (
	"encoding/binary"
	"hash/crc32"

	"golang.org/x/sys/unix"
)

// The format is described in the kernel's fs/erofs/erofs_fs.h. Numbers are little-endian.
const (
	blockBits = 12
	blockSize = 1 << blockBits

	superOffset = 1024
	magic       = 0xE0F5E1E2
	// compat is a checksum of the superblock, and times that are of modification.
	compat = 1<<0 | 1<<1

	slotBits  = 5 // an inode's number is its offset in slots
	slot      = 1 << slotBits
	inodeSize = 64

	layoutPlain  = 0 // all data in blocks
	layoutInline = 2 // whole blocks, and the end next to the inode

	direntSize = 12
)

// format is the format field of an inode: the long form, with a layout.
func format(layout int) uint16 { return uint16(1 | layout<<1) }

// superblock returns the first block.
func superblock(root uint16, inodes uint64, blocks uint32) []byte {
	b := make([]byte, blockSize)
	s := b[superOffset:]
	le := binary.LittleEndian
	le.PutUint32(s[0:], magic)
	le.PutUint32(s[8:], compat)
	s[12] = blockBits
	le.PutUint16(s[14:], root)
	le.PutUint64(s[16:], inodes)
	le.PutUint32(s[36:], blocks)
	// The checksum is of the rest of the block, in which no inode lies for that reason.
	le.PutUint32(s[4:], ^crc32.Checksum(s, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// put writes the inode's fixed part.
func (n *node) put(b []byte) {
	le := binary.LittleEndian
	layout := layoutPlain
	if n.inline {
		layout = layoutInline
	}
	le.PutUint16(b[0:], format(layout))
	le.PutUint16(b[2:], n.xattrCount())
	le.PutUint16(b[4:], uint16(n.mode))
	le.PutUint64(b[8:], uint64(n.size))
	switch n.mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		le.PutUint32(b[16:], device(n.rdev))
	case unix.S_IFIFO, unix.S_IFSOCK:
	default:
		le.PutUint32(b[16:], n.block)
	}
	le.PutUint32(b[20:], n.number)
	le.PutUint32(b[24:], n.uid)
	le.PutUint32(b[28:], n.gid)
	le.PutUint64(b[32:], uint64(n.sec))
	le.PutUint32(b[40:], uint32(n.nsec))
	le.PutUint32(b[44:], n.links)
}

// device is the kernel's 32-bit form of a device number.
func device(rdev uint64) uint32 {
	major, minor := unix.Major(rdev), unix.Minor(rdev)
	return minor&0xff | major<<8 | minor&^0xff<<12
}

// kind is the type of a directory's entry.
func kind(mode uint32) byte {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 1
	case unix.S_IFDIR:
		return 2
	case unix.S_IFCHR:
		return 3
	case unix.S_IFBLK:
		return 4
	case unix.S_IFIFO:
		return 5
	case unix.S_IFSOCK:
		return 6
	case unix.S_IFLNK:
		return 7
	}
	return 0
}
