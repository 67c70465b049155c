package githttp

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"hortus.dev/api/secrets"
)

// The kinds of entries of a pack.
const (
	packCommit   = 1
	packTree     = 2
	packBlob     = 3
	packTag      = 4
	packOffset   = 6 // a delta whose base is at an offset
	packRefDelta = 7 // a delta whose base has an id
)

// packReader parses a pack, a part for each step. It reads the contents of commits only, and
// only if the history of a ref has to be known.
type packReader struct {
	rule    secrets.Git
	src     *source
	limits  pack
	sum     hash.Hash
	history *history // nil if no ref needs it

	began    bool
	start    int64 // where the pack begins in the body
	left     uint32
	inflated int64
	z        io.ReadCloser
	out      []byte

	in *entry // that is being inflated
}

// entry is an object of a pack.
type entry struct {
	at   int64 // where it begins in the pack
	kind byte
	size int64 // that it says it has
	n    int64 // that were inflated
	base []byte
	// content is a commit, or the delta of one, if collect is true.
	collect bool
	content []byte
}

func newHash(long bool) hash.Hash {
	if long {
		return sha256.New()
	}
	return sha1.New() // the name of the object in git
}

func newPackReader(rule secrets.Git, src *source, l pack, long bool, updates []command) *packReader {
	p := &packReader{rule: rule, src: src, limits: l, sum: newHash(long), out: make([]byte, 16<<10)}
	if len(updates) > 0 {
		p.history = newHistory(rule, l, long, updates)
	}
	return p
}

// step parses a part and adds it to the checksum. The last step is the checksum: it is passed on
// only if the pack is what the commands say.
func (p *packReader) step() error {
	if !p.began {
		p.began, p.start = true, p.src.n
		if err := p.header(); err != nil {
			return err
		}
	} else if p.in != nil {
		if err := p.data(); err != nil {
			return err
		}
	} else if p.left > 0 {
		if err := p.entry(); err != nil {
			return err
		}
	} else {
		return p.trailer()
	}
	p.sum.Write(p.src.buf[p.src.checked:p.src.pos])
	return nil
}

func (p *packReader) header() error {
	b, err := p.src.next(12)
	switch {
	case err == io.EOF:
		return errors.New("there is no pack")
	case err != nil:
		return err
	case string(b[:4]) != "PACK" || binary.BigEndian.Uint32(b[4:]) != 2:
		return errors.New("what follows the commands is no pack of version 2")
	}
	if p.left = binary.BigEndian.Uint32(b[8:]); p.left > p.limits.objects {
		return refuse(p.rule, "the pack has %d objects; the maximum is %d", p.left, p.limits.objects)
	}
	return nil
}

// entry parses what is in front of the data of an object.
func (p *packReader) entry() error {
	e := &entry{at: p.src.n - p.start}
	c, err := p.src.ReadByte()
	if err != nil {
		return noEOF(err)
	}
	e.kind, e.size = c>>4&7, int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = p.src.ReadByte(); err != nil {
			return noEOF(err)
		}
		if shift > 53 {
			return errors.New("the size of an object is out of range")
		}
		e.size |= int64(c&0x7f) << shift
	}
	var base *commit
	switch e.kind {
	case packCommit, packTree, packBlob, packTag:
	case packOffset:
		offset, err := p.offset()
		if err != nil {
			return err
		}
		if offset <= 0 || offset > e.at-12 {
			return errors.New("the base of a delta is outside of the pack")
		}
		if p.history != nil {
			base = p.history.at[e.at-offset]
		}
	case packRefDelta:
		id, err := p.src.next(p.sum.Size())
		if err != nil {
			return noEOF(err)
		}
		if p.history != nil {
			base = p.history.byID[toID(id)]
		}
	default:
		return fmt.Errorf("an object is of the unknown kind %d", e.kind)
	}
	if base != nil {
		e.base = base.content
	}
	e.collect = p.history != nil && (e.kind == packCommit || base != nil) && e.size <= p.limits.commit
	if p.z == nil {
		p.z, err = zlib.NewReader(p.src)
	} else {
		err = p.z.(zlib.Resetter).Reset(p.src, nil)
	}
	p.in = e
	return noEOF(err)
}

// offset parses the distance of a base.
func (p *packReader) offset() (int64, error) {
	c, err := p.src.ReadByte()
	n := int64(c & 0x7f)
	for err == nil && c&0x80 != 0 {
		if n > 1<<48 {
			return 0, errors.New("the base of a delta is out of range")
		}
		c, err = p.src.ReadByte()
		n = (n+1)<<7 | int64(c&0x7f)
	}
	return n, noEOF(err)
}

// data inflates a part of an object.
func (p *packReader) data() error {
	e := p.in
	n, err := p.z.Read(p.out)
	e.n += int64(n)
	p.inflated += int64(n)
	switch read := p.src.n - p.start; {
	case e.n > e.size:
		return errors.New("an object is larger than it says")
	case p.inflated > p.limits.inflated || p.inflated > p.limits.free+p.limits.ratio*read:
		return refuse(p.rule, "the objects of the pack are too large: %d MiB, in a pack of %d MiB so far", p.inflated>>20, read>>20)
	}
	if e.collect {
		e.content = append(e.content, p.out[:n]...)
	}
	if err == nil {
		return nil
	}
	if err != io.EOF {
		return err
	}
	if e.n < e.size {
		return errors.New("an object is smaller than it says")
	}
	p.in = nil
	p.left--
	if p.history == nil || e.kind != packCommit && e.base == nil {
		return nil
	}
	if !e.collect {
		p.history.incomplete = true
		return nil
	}
	content := e.content
	if e.kind != packCommit {
		content, err = applyDelta(e.base, content, p.limits.commit)
		if err == errDeltaLarge {
			p.history.incomplete = true
			return nil
		}
		if err != nil {
			return err
		}
		p.inflated += int64(len(content)) // a few bytes may become many
	}
	p.history.add(e.at, content)
	return nil
}

// trailer compares the checksum, and then decides about the commands.
func (p *packReader) trailer() error {
	b, err := p.src.next(p.sum.Size())
	if err != nil {
		return noEOF(err)
	}
	if !bytes.Equal(b, p.sum.Sum(nil)) {
		return errors.New("the checksum of the pack is wrong")
	}
	ended, err := p.src.ended()
	switch {
	case err != nil:
		return err
	case !ended:
		return errors.New("something follows the pack")
	}
	if p.history != nil {
		if refused := p.history.check(); refused != nil {
			return refused
		}
	}
	return io.EOF
}

// noEOF returns the error of a body that ends too early.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
