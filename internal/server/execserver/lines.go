package execserver

import (
	"bufio"
	"context"
	"io"
	"sync"

	"hortus.dev/api"
)

// lines carries messages on two streams, one on each line.
type lines struct {
	r    *bufio.Reader
	w    io.Writer
	next chan line
	done chan struct{}
	once sync.Once
}

type line struct {
	b   []byte
	err error
}

// Lines returns a connection on two streams, such as the standard streams of a process. The
// streams stay the caller's: after Close, a read of r may continue until r has an end.
func Lines(r io.Reader, w io.Writer) Conn {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), w: w, next: make(chan line), done: make(chan struct{})}
}

// Read returns the next line that is not empty.
func (l *lines) Read(ctx context.Context) ([]byte, error) {
	go func() {
		b, err := l.line()
		select {
		case l.next <- line{b, err}:
		case <-l.done:
		}
	}()
	select {
	case n := <-l.next:
		return n.b, n.err
	case <-l.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *lines) line() ([]byte, error) {
	var b []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if most := (Config{}).maxMessage(); len(b)+len(part) > most {
			return nil, api.Errorf(api.KindExhausted, "a message is longer than %d bytes", most)
		}
		b = append(b, part...)
		switch {
		case err == bufio.ErrBufferFull:
		case err != nil: // a part of a message is none
			return nil, err
		case len(b) > 1:
			return b, nil
		default:
			b = b[:0]
		}
	}
}

// Write writes a message, which has no line break.
func (l *lines) Write(_ context.Context, message []byte) error {
	_, err := l.w.Write(append(message, '\n'))
	return err
}

// Close ends a Read that waits.
func (l *lines) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}
