package kernel

import (
	"fmt"
	"io"
)

const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

// cpio writes an archive of the kind that the kernel unpacks into its initial file system. Several of them may follow
// one another.
type cpio struct {
	w      io.Writer
	number int
	err    error
}

// add adds a file or a directory, owned by root.
func (c *cpio) add(name string, mode uint32, data []byte) {
	c.number++
	links := 1
	if mode&modeDir != 0 {
		links = 2
	}
	// magic, inode, mode, uid, gid, links, time, size, device (2), special device (2), length of the name, checksum
	h := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.number, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	c.write([]byte(h + name + "\x00"))
	c.align(len(h) + len(name) + 1)
	c.write(data)
	c.align(len(data))
}

func (c *cpio) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}

// align fills what n bytes leave of a multiple of 4.
func (c *cpio) align(n int) { c.write(make([]byte, -n&3)) }

// end ends the archive.
func (c *cpio) end() error {
	c.add("TRAILER!!!", 0, nil)
	return c.err
}
