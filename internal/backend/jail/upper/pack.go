package upper

import (
	"bufio"
	"context"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// packer writes a saved file. It keeps the first error of its writer, and checks it while
// contents are copied.
type packer struct {
	ctx   context.Context
	w     *bufio.Writer
	bytes int64 // that may still be written
	buf   []byte
}

func (p *packer) tree(name string, m meta) error { return p.head(recTree, name, m) }

func (p *packer) dir(name string, m meta, opaque bool) error {
	if opaque {
		return p.head(recOpaque, name, m)
	}
	return p.head(recDir, name, m)
}

func (p *packer) up() error { return p.w.WriteByte(recUp) }

func (p *packer) hard(name, first string) error {
	p.name(recHard, name)
	return p.text(first)
}

func (p *packer) symlink(name string, m meta, target string, _ again) error {
	p.head(recSymlink, name, m)
	return p.text(target)
}

func (p *packer) special(rec byte, name string, m meta, _ again) error { return p.head(rec, name, m) }

func (p *packer) whiteout(name string) error { return p.name(recWhiteout, name) }

func (p *packer) file(name string, m meta, f content) error {
	if err := p.head(recFile, name, m); err != nil {
		return err
	}
	p.number(f.size)
	for off := int64(0); off < f.size; {
		start, err := unix.Seek(f.fd, off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			break // a hole to the end
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(f.fd, start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if end = min(end, f.size); end <= start {
			break
		}
		if err := p.extent(f.fd, start, end); err != nil {
			return err
		}
		off = end
	}
	p.number(f.size)
	return p.number(0)
}

// extent saves a part of a file that is not a hole.
func (p *packer) extent(fd int, off, end int64) error {
	if p.bytes -= end - off; p.bytes < 0 {
		return refuse("it exceeds the size of the sandbox's disk")
	}
	p.number(off)
	p.number(end - off)
	for off < end {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Pread(fd, p.buf[:min(int64(len(p.buf)), end-off)], off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return errChanged
		}
		if _, err := p.w.Write(p.buf[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// head writes the start of a record.
func (p *packer) head(rec byte, name string, m meta) error {
	p.name(rec, name)
	var b [metaSize]byte
	binary.LittleEndian.PutUint32(b[0:], m.mode)
	binary.LittleEndian.PutUint32(b[4:], m.uid)
	binary.LittleEndian.PutUint32(b[8:], m.gid)
	binary.LittleEndian.PutUint64(b[12:], uint64(m.sec))
	binary.LittleEndian.PutUint32(b[20:], m.nsec)
	_, err := p.w.Write(b[:])
	return err
}

func (p *packer) name(rec byte, name string) error {
	p.w.WriteByte(rec)
	p.w.WriteByte(byte(len(name)))
	_, err := p.w.WriteString(name)
	return err
}

func (p *packer) text(s string) error {
	p.w.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(s))))
	_, err := p.w.WriteString(s)
	return err
}

func (p *packer) number(n int64) error {
	_, err := p.w.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	return err
}
