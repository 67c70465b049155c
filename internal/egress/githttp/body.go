package githttp

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// Send sends a request of Check. The answer to a push that is not complete yet is returned only
// when its body has been sent: a server may begin to answer before, and the push may still be
// refused. The error is the *Refusal if the body was refused.
func Send(t http.RoundTripper, r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTrip(r)
	b, ok := r.Body.(*body)
	if !ok {
		return resp, err
	}
	if err == nil && resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == resultType(receivePack) {
		select {
		case <-b.done:
		case <-r.Context().Done():
		}
	}
	refused := b.refused.Load()
	if refused == nil {
		return resp, err
	}
	if err == nil {
		_ = resp.Body.Close()
	}
	return nil, refused
}

// body is a body that is checked while it is read: nothing is passed on before it was checked.
type body struct {
	src   *source
	close io.Closer
	// step checks the next piece. It returns io.EOF when the body has ended as expected.
	step func() error
	err  error

	refused atomic.Pointer[Refusal]
	once    sync.Once
	done    chan struct{} // closed when nothing more is read
}

func newBody(in io.Reader, window int, c io.Closer) *body {
	return &body{src: newSource(in, window), close: c, done: make(chan struct{})}
}

func (b *body) finish() { b.once.Do(func() { close(b.done) }) }

// advance checks a piece.
func (b *body) advance() {
	err := b.step()
	if err == nil || err == io.EOF {
		b.src.checked = b.src.pos
	}
	if b.err = err; err == nil {
		return
	}
	var refused *Refusal
	if errors.As(err, &refused) {
		b.refused.Store(refused)
	}
	b.finish()
}

// prefetch checks up to n bytes before any is passed on.
func (b *body) prefetch(n int) error {
	for b.err == nil && b.src.checked-b.src.sent < n {
		b.advance()
	}
	if b.err == io.EOF {
		return nil
	}
	return b.err
}

// whole returns the size of what is left if all of it was checked, or -1.
func (b *body) whole() int64 {
	if b.err != io.EOF {
		return -1
	}
	return int64(b.src.checked - b.src.sent)
}

// piece is how much is collected for one Read if it has been received already.
const piece = 32 << 10

// Read implements io.Reader. The error of what was refused is a *Refusal.
func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s := b.src
	for b.err == nil && (s.checked == s.sent || s.pos < s.end && s.checked-s.sent < min(len(p), piece)) {
		b.advance()
	}
	if s.checked == s.sent {
		return 0, b.err
	}
	n := copy(p, s.buf[s.sent:s.checked])
	s.sent += n
	return n, nil
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.finish()
	return b.close.Close()
}
