package rpc

import (
	"net/http"
	"strconv"
	"time"
)

// Writer is an http.ResponseWriter. With a Content-Length header the body is sent as it is,
// otherwise in chunks.
type Writer struct {
	c       *Conn
	header  http.Header
	started bool
	chunked bool
	err     error
}

// NewWriter returns a writer for the answer to the current request.
func NewWriter(c *Conn) *Writer { return &Writer{c: c, header: make(http.Header)} }

func (w *Writer) Header() http.Header { return w.header }

func (w *Writer) WriteHeader(status int) {
	if w.started {
		return
	}
	w.started = true
	noBody := status == http.StatusNoContent || status == http.StatusNotModified
	w.chunked = !noBody && w.header.Get("Content-Length") == ""
	if w.chunked {
		w.header.Set("Transfer-Encoding", "chunked")
	}
	if w.c.close {
		w.header.Set("Connection", "close")
	}
	b := append([]byte("HTTP/1.1 "), strconv.Itoa(status)...)
	b = append(append(append(b, ' '), http.StatusText(status)...), "\r\n"...)
	for name, values := range w.header {
		for _, v := range values {
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	w.write(append(b, "\r\n"...))
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	w.c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, w.err = w.c.Write(b); w.err == nil {
		w.c.SetWriteDeadline(time.Time{})
	}
}

func (w *Writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if len(p) == 0 {
		return 0, w.err
	}
	if w.chunked {
		b := strconv.AppendInt(nil, int64(len(p)), 16)
		w.write(append(b, "\r\n"...))
		w.write(p)
		w.write([]byte("\r\n"))
	} else {
		w.write(p)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Finish ends the answer. After an error the connection must be closed.
func (w *Writer) Finish() error {
	w.WriteHeader(http.StatusOK)
	if w.chunked {
		w.write([]byte("0\r\n\r\n"))
	}
	return w.err
}
