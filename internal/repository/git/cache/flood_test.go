package cache

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/test/gittest"
)

// TestFetchFlood: a server that sends one object without an end. It is cut off while
// it sends, and nothing of it stays.
func TestFetchFlood(t *testing.T) {
	hash := strings.Repeat("ab", 20)
	pkt := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	noise := make([]byte, 32<<10)
	rand.Read(noise)
	var sent atomic.Int64
	gone := make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+pkt(hash+" HEAD\x00side-band-64k shallow ofs-delta symref=HEAD:refs/heads/main\n")+pkt(hash+" refs/heads/main\n")+"0000")
			return
		}
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		io.WriteString(w, "0000") // nothing is shallow
		if !bytes.Contains(body, []byte("done")) {
			return
		}
		io.WriteString(w, pkt("NAK\n"))
		// A pack of one blob that is said to have 2^50 bytes, not compressed.
		start := "PACK\x00\x00\x00\x02\x00\x00\x00\x01" + "\xb0\x80\x80\x80\x80\x80\x80\x40" + "\x78\x01"
		n := len(noise)
		block := "\x00" + string([]byte{byte(n), byte(n >> 8), byte(^n), byte(^n >> 8)}) + string(noise)
		for next := start; ; next = block {
			if _, err := io.WriteString(w, pkt("\x01"+next)); err != nil {
				gone <- struct{}{}
				return
			}
			sent.Add(int64(len(next)))
		}
	}))
	defer s.Close()
	c := newCache(t, func(c *Config) { c.MaxBytes = 8 << 20 })
	_, err := c.Fetch(gittest.Context(t), git.Source{URL: s.URL + "/a.git"}, nil)
	gittest.WantKind(t, err, api.KindExhausted, "limit of 8388608 bytes")
	<-gone
	if sent.Load() < 8<<20 {
		t.Errorf("only %d bytes were sent", sent.Load())
	}
	if left, _ := filepath.Glob(filepath.Join(c.cfg.Dir, "*.new")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if left, _ := filepath.Glob(filepath.Join(c.cfg.Dir, "*.git")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
