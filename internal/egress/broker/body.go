package broker

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

const (
	// maxDecoded is how many bytes of a compressed body are read in any case, and maxRatio how
	// many for each byte that was sent, above that.
	maxDecoded = 64 << 20
	maxRatio   = 200
)

// encoding returns the encoding of a body: "" for none, "gzip", "deflate", or another one, such as several.
func encoding(h http.Header) string {
	var all []string
	for e := range strings.SplitSeq(strings.ToLower(strings.Join(h["Content-Encoding"], ",")), ",") {
		switch e = strings.TrimSpace(e); e {
		case "", "identity":
		case "x-gzip":
			all = append(all, "gzip")
		default:
			all = append(all, e)
		}
	}
	return strings.Join(all, ", ")
}

// newDecoder returns a reader of what src has in an encoding. It does not read before it is read,
// and no more than it needs if src is an io.ByteReader.
func newDecoder(encoding string, src io.Reader) io.Reader {
	return &decoder{encoding: encoding, src: src}
}

type decoder struct {
	encoding string
	src      io.Reader
	r        io.Reader
}

// Read implements io.Reader.
func (d *decoder) Read(p []byte) (int, error) {
	if d.r == nil {
		if err := d.open(); err != nil {
			return 0, err
		}
	}
	return d.r.Read(p)
}

func (d *decoder) open() (err error) {
	if d.encoding == "gzip" {
		d.r, err = gzip.NewReader(d.src)
		return err
	}
	// "deflate" is zlib, but some programs send it without its header.
	var head [2]byte
	if _, err := io.ReadFull(d.src, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the compressed data is too short")
		}
		return err
	}
	src := &bodyFrom{head: bytes.NewReader(head[:]), src: byteReader(d.src)}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		d.r, err = zlib.NewReader(src)
		return err
	}
	d.r = flate.NewReader(src)
	return nil
}

type readByteReader interface {
	io.Reader
	io.ByteReader
}

func byteReader(r io.Reader) readByteReader {
	if b, ok := r.(readByteReader); ok {
		return b
	}
	return bufio.NewReader(r)
}

// bodyFrom reads two bytes that were read already, then the rest.
type bodyFrom struct {
	head *bytes.Reader
	src  readByteReader
}

// Read implements io.Reader.
func (j *bodyFrom) Read(p []byte) (int, error) {
	if j.head.Len() > 0 {
		return j.head.Read(p)
	}
	return j.src.Read(p)
}

// ReadByte implements io.ByteReader.
func (j *bodyFrom) ReadByte() (byte, error) {
	if j.head.Len() > 0 {
		return j.head.ReadByte()
	}
	return j.src.ReadByte()
}

// body is the body of a request that is searched for placeholders. A part in which one ends is
// not passed on.
type body struct {
	io.ReadCloser
	check   func(placeholder, where string) error // the refusal of a placeholder
	trailer func() http.Header
	scan    scanner
	packed  *packedBody // nil for a body that is not compressed
	sent    *atomic.Int64
	tap     func([]byte) // gets what is sent, not compressed; it may be nil
	refusal atomic.Pointer[error]
}

func newBody(r *http.Request, check func(placeholder, where string) error, sent *atomic.Int64) *body {
	b := &body{ReadCloser: r.Body, check: check, sent: sent, trailer: func() http.Header { return r.Trailer }}
	if e := encoding(r.Header); e == "gzip" || e == "deflate" {
		b.packed = newPacked(e, r.Body)
	}
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if e := b.refusal.Load(); e != nil {
		return 0, *e
	}
	var n int
	var err error
	if b.packed != nil {
		var found string
		if n, found, err = b.packed.read(p, b.tap); found != "" {
			return 0, b.refuse(found, "the compressed body")
		}
		if err == errPacked {
			return 0, b.refuse("", errPacked.Error())
		}
	} else {
		if n, err = b.ReadCloser.Read(p); b.tap != nil {
			b.tap(p[:n])
		}
	}
	if found := b.scan.scan(p[:n]); found != "" {
		return 0, b.refuse(found, "the body")
	}
	if err == io.EOF {
		for name, values := range b.trailer() {
			if found := first(find(name), find(strings.Join(values, "\n"))); found != "" {
				return 0, b.refuse(found, "a trailer")
			}
		}
	}
	b.sent.Add(int64(n))
	return n, err
}

// refuse ends the body.
func (b *body) refuse(placeholder, where string) error {
	err := b.check(placeholder, where)
	b.refusal.Store(&err)
	return err
}

// refused returns the refusal, or nil.
func (b *body) refused() error {
	if b == nil {
		return nil
	}
	if e := b.refusal.Load(); e != nil {
		return *e
	}
	return nil
}

var errPacked = errors.New("the compressed body is malformed, or too large when it is not compressed")

// packedBody reads a compressed body: it decodes it, and returns the bytes as they were sent once
// what they decode to was searched.
type packedBody struct {
	raw     *capture
	decoder io.Reader
	scan    scanner
	decoded int64
	plain   []byte // at least the window of the decoder, so that one Read returns all it has
	err     error
}

func newPacked(encoding string, src io.Reader) *packedBody {
	raw := &capture{src: bufio.NewReader(src)}
	return &packedBody{raw: raw, decoder: newDecoder(encoding, raw), plain: make([]byte, 64<<10)}
}

// read returns bytes as they were sent, or a placeholder. tap gets what they decode to.
func (k *packedBody) read(p []byte, tap func([]byte)) (n int, found string, err error) {
	for len(k.raw.taken) == 0 && k.err == nil {
		n, err := k.decoder.Read(k.plain)
		if k.decoded += int64(n); tap != nil {
			tap(k.plain[:n])
		}
		if found := k.scan.scan(k.plain[:n]); found != "" {
			return 0, found, nil
		}
		if k.decoded > maxDecoded && k.decoded/maxRatio > k.raw.total {
			return 0, "", errPacked
		}
		switch {
		case err == nil:
		case k.raw.err != nil && k.raw.err != io.EOF:
			k.err = k.raw.err // the client has left
		case err == io.EOF && k.raw.rest() == 0:
			k.err = io.EOF
		case err == io.EOF && k.raw.total == 0:
			k.err = io.EOF // an empty body
		default:
			return 0, "", errPacked
		}
	}
	if len(k.raw.taken) == 0 {
		return 0, "", k.err
	}
	n = copy(p, k.raw.taken)
	k.raw.taken = k.raw.taken[:copy(k.raw.taken, k.raw.taken[n:])]
	return n, "", nil
}

// capture keeps the bytes that a decoder took. It is an io.ByteReader, so that a decoder takes no
// more than it decodes.
type capture struct {
	src   *bufio.Reader
	taken []byte
	total int64
	err   error
}

// Read implements io.Reader.
func (c *capture) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.taken = append(c.taken, p[:n]...)
	c.total += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}

// ReadByte implements io.ByteReader.
func (c *capture) ReadByte() (byte, error) {
	b, err := c.src.ReadByte()
	if err != nil {
		c.err = err
		return 0, err
	}
	c.taken = append(c.taken, b)
	c.total++
	return b, nil
}

// rest returns how many bytes follow what was decoded, as far as that can be said: 0 or 1.
func (c *capture) rest() int {
	_, err := c.src.Peek(1)
	if err == nil {
		return 1
	}
	return 0
}
