package load

import (
	"bufio"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"
)

// maxBody is the maximum size of a body, in bytes.
const maxBody = 4 << 30

// Token is the bearer token that the server accepts.
const Token = "token-of-the-benchmark"

// small is the body of a small answer.
const small = "The quick brown fox jumps over the lazy dog. 0123456789\n"

// serve is the server: HTTP/1.1 over TLS on loopback.
func serve(in *bufio.Reader, out io.Writer) error {
	var l Listen
	if err := read(in, &l); err != nil {
		return err
	}
	cert, err := tls.X509KeyPair([]byte(l.Cert), []byte(l.Key))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(answer), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}},
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeTLS(listener, "", "") }()
	if err := write(out, Served{listener.Addr().(*net.TCPAddr).Port}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	srv.Close()
	<-done
	return err
}

// answer answers /small, and /body?bytes=N. A bearer token must be Token.
func answer(w http.ResponseWriter, r *http.Request) {
	if token := r.Header.Get("Authorization"); token != "" && token != "Bearer "+Token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	if r.URL.Path != "/body" {
		h.Set("Content-Length", strconv.Itoa(len(small)))
		_, _ = io.WriteString(w, small)
		return
	}
	n, err := strconv.ParseInt(r.URL.Query().Get("bytes"), 10, 64)
	if err != nil || n < 0 || n > maxBody {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	block := make([]byte, 256<<10)
	for n > 0 {
		m, err := w.Write(block[:min(n, int64(len(block)))])
		if err != nil {
			return
		}
		n -= int64(m)
	}
}
