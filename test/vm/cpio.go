package main

import (
	"fmt"
	"io"
)

// archive writes an initial RAM disk in the kernel's format, cpio "newc".
type archive struct {
	w   io.Writer
	n   int
	ino int
	err error
}

func (a *archive) write(b []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(b)
	}
	a.n += len(b)
}

// align pads to a multiple of four bytes.
func (a *archive) align() {
	if r := a.n % 4; r != 0 {
		a.write(make([]byte, 4-r))
	}
}

func (a *archive) entry(name string, mode, major, minor uint32, data []byte) {
	a.ino++
	// ino mode uid gid nlink mtime size devmajor devminor rdevmajor rdevminor namesize check
	for i, v := range []uint32{uint32(a.ino), mode, 0, 0, 1, 0, uint32(len(data)), 0, 0, major, minor, uint32(len(name) + 1), 0} {
		if i == 0 {
			a.write([]byte("070701"))
		}
		a.write(fmt.Appendf(nil, "%08x", v))
	}
	a.write(append([]byte(name), 0))
	a.align()
	a.write(data)
	a.align()
}

func (a *archive) dir(name string)               { a.entry(name, 0o040755, 0, 0, nil) }
func (a *archive) file(name string, data []byte) { a.entry(name, 0o100755, 0, 0, data) }

// device adds a character device.
func (a *archive) device(name string, major, minor uint32) {
	a.entry(name, 0o020600, major, minor, nil)
}

// close ends the archive.
func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, 0, 0, nil)
	return a.err
}
