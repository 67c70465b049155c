package strict

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"testing"
)

// counting counts what was read from it.
type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p[:min(len(p), 1)])
	c.n += n
	return n, err
}

// FuzzScan holds that where package net/http and the scanner both find requests, they
// find them at the same places, and that it does not matter in which pieces the bytes
// come.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"\r\n\r\nGET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n", "A\r\n\r\nB", "P / HTTP/1.1\r\nContent-Length: 1\r\n\r\nxP",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > maxLine {
			return // what is too long passes up to the piece that it came in
		}
		// Byte by byte, noting where each request ends.
		var s scanner
		var ends []int
		passed := 0
		for i := range raw {
			if s.scan(raw[i:i+1]) == 0 {
				break
			}
			passed = i + 1
			if s.phase == inHead && !s.begun && len(s.line) == 0 {
				ends = append(ends, i+1)
			}
		}
		var whole scanner
		if n := whole.scan(slices.Clone(raw)); n != passed || whole.phase != s.phase && passed < len(raw) {
			t.Fatalf("in one piece %d bytes pass, one by one %d", n, passed)
		}
		// What passed, read by package net/http. It stops where it refuses more.
		in := &counting{r: bytes.NewReader(raw[:passed])}
		br := bufio.NewReaderSize(in, 16)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			at := in.n - br.Buffered()
			if !slices.Contains(ends, at) {
				t.Fatalf("package net/http ends a request at %d, the scanner at %v: %q", at, ends, raw)
			}
		}
	})
}
