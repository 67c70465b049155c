package githttp

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
)

// inflater decodes a body that was compressed as a whole.
type inflater struct {
	in    counter
	ratio int64

	buf *bufio.Reader
	z   *gzip.Reader
	n   int64
}

// counter counts what is read, and keeps the error of the reader.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// Read implements io.Reader. It returns errInflate for what is no gzip, or grows too much.
func (i *inflater) Read(p []byte) (int, error) {
	n, err := i.read(p)
	if err != nil && err != io.EOF {
		if i.in.err != nil {
			return n, i.in.err
		}
		err = errInflate
	}
	return n, err
}

var errInflate = errors.New("the body is not valid gzip, or grows too much")

func (i *inflater) read(p []byte) (int, error) {
	if i.z == nil {
		i.buf = bufio.NewReader(&i.in)
		z, err := gzip.NewReader(i.buf)
		if err != nil {
			return 0, errInflate
		}
		z.Multistream(false)
		i.z = z
	}
	n, err := i.z.Read(p)
	if i.n += int64(n); i.n > 64<<10+i.ratio*i.in.n {
		return 0, errInflate
	}
	if err == io.EOF {
		if _, more := i.buf.ReadByte(); more != io.EOF {
			return n, errInflate
		}
	}
	return n, err
}
