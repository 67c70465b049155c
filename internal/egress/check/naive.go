package check

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// naive is an HTTP server that reads requests as careless servers do: it takes lines that end
// with a line feed alone, does not mind spaces around names, and if a request has both a
// Content-Length and a Transfer-Encoding, it believes the one or the other. Two readers that
// disagree about where a request ends are what request smuggling needs.
type naive struct{ te bool }

func (s *Servers) serveNaive(l net.Listener, n naive) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.all.Go(func() {
			defer s.conns.add(c)()
			br := bufio.NewReader(c)
			for {
				_ = c.SetReadDeadline(time.Now().Add(time.Minute))
				line, err := n.request(br)
				if line != "" {
					s.journal.add("naive server", line)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
				if err != nil {
					return
				}
			}
		})
	}
}

// request reads one request and returns its first line.
func (n naive) request(br *bufio.Reader) (string, error) {
	first := ""
	length, chunked := -1, false
	for lines := 0; ; lines++ {
		line, err := br.ReadString('\n')
		if err != nil {
			return first, err
		}
		if lines > 1000 {
			return first, errors.New("too many lines")
		}
		line = strings.TrimRight(line, "\r\n")
		if first == "" {
			first = line
			continue
		}
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "content-length":
			if v, err := strconv.Atoi(strings.TrimLeft(value, "+")); err == nil && v >= 0 && v < 1<<20 {
				length = v
			}
		case "transfer-encoding":
			chunked = chunked || strings.Contains(strings.ToLower(value), "chunked")
		}
	}
	if chunked && (n.te || length < 0) {
		return first, skipChunks(br)
	}
	_, err := io.CopyN(io.Discard, br, int64(max(length, 0)))
	return first, err
}

func skipChunks(br *bufio.Reader) error {
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return err
		}
		digits, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		size, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 20)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, br, int64(size)); err != nil {
			return err
		}
		if _, err := br.ReadString('\n'); err != nil {
			return err
		}
		if size == 0 {
			return nil
		}
	}
}
