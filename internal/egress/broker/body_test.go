package broker

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

// rawDeflated is deflate without the header of zlib, which some programs send.
func rawDeflated(s string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 9)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

// check reads a body with an encoding. It returns what passed and what was found.
func check(encoding string, src io.Reader) (passed []byte, found string, _ error) {
	r := &http.Request{Header: http.Header{}, Body: io.NopCloser(src)}
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	b := newBody(r, func(p, where string) error {
		if found = p; p == "" {
			found = where
		}
		return errors.New("refused")
	}, new(atomic.Int64))
	passed, err := io.ReadAll(b)
	return passed, found, err
}

// TestBodies has bodies that are malformed, empty or too large when they are decoded.
func TestBodies(t *testing.T) {
	p := NewPlaceholder()
	text := strings.Repeat("some text ", 20_000)
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	io.Copy(w, io.LimitReader(zeros{}, maxDecoded+10<<20))
	w.Close()
	stored := func(s string) string {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.NoCompression)
		io.WriteString(w, s)
		w.Close()
		return b.String()
	}
	for name, row := range map[string]struct{ encoding, body, found string }{
		"plain":                  {"", text, ""},
		"plain, found":           {"identity", text + p + text, p},
		"gzip":                   {"gzip", gzipped(text), ""},
		"gzip, found":            {"x-gzip", gzipped(text + p + text), p},
		"gzip, stored":           {"gzip", stored(text), ""},
		"gzip, stored and found": {"gzip", stored(text + p), p},
		"gzip, two members":      {"gzip", gzipped(text) + gzipped(text), ""},
		"deflate":                {"deflate", deflated(text), ""},
		"deflate, raw":           {"deflate", rawDeflated(text), ""},
		"deflate, raw and found": {"deflate", rawDeflated(text + p), p},
		"deflate, too short":     {"deflate", "x", errPacked.Error()},
		"empty gzip":             {"gzip", "", ""},
		"empty deflate":          {"deflate", "", ""},
		"not gzip":               {"gzip", text, errPacked.Error()},
		"truncated":              {"gzip", gzipped(text)[:100], errPacked.Error()},
		"text after gzip":        {"gzip", gzipped(text) + "text", errPacked.Error()},
		"text after deflate":     {"deflate", deflated(text) + "text", errPacked.Error()},
		"too large":              {"gzip", bomb.String(), errPacked.Error()},
		"unknown encoding":       {"br", text, ""},
		"unknown and found":      {"br", text + p, p},
	} {
		passed, found, err := check(row.encoding, strings.NewReader(row.body))
		if found != row.found || (err == nil) != (row.found == "") || row.found == "" && string(passed) != row.body {
			t.Errorf("%s: found %q, %v, %d of %d bytes passed", name, found, err, len(passed), len(row.body))
		}
		if strings.Contains(string(passed), p) {
			t.Errorf("%s: the placeholder passed", name)
		}
	}
}

// TestClientLeaves has a client leave in a compressed body: that is no alarm.
func TestClientLeaves(t *testing.T) {
	left := errors.New("the client has left")
	_, found, err := check("gzip", io.MultiReader(strings.NewReader(gzipped("some text")[:12]), iotest.ErrReader(left)))
	if found != "" || !errors.Is(err, left) {
		t.Errorf("%q %v", found, err)
	}
}

// FuzzBody decodes bytes of a client, whole and divided. What passes is what was sent.
func FuzzBody(f *testing.F) {
	p := Prefix + strings.Repeat("a", randomChars)
	f.Add([]byte(gzipped("a "+p)), true, int64(1))
	f.Add([]byte(deflated("a "+p)), false, int64(2))
	f.Add([]byte(gzipped(strings.Repeat("text", 1000))), true, int64(3))
	f.Add([]byte(rawDeflated("text")), false, int64(4))
	f.Fuzz(func(t *testing.T, b []byte, gz bool, seed int64) {
		encoding := "deflate"
		if gz {
			encoding = "gzip"
		}
		passed, found, err := check(encoding, bytes.NewReader(b))
		if !bytes.HasPrefix(b, passed) || err == nil && len(passed) != len(b) {
			t.Fatalf("%d of %d bytes passed, %v", len(passed), len(b), err)
		}
		var parts []string
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		for rest := string(b); rest != ""; {
			n := 1 + rnd.IntN(min(len(rest), 60))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		if _, found2, err2 := check(encoding, &pieces{parts}); found2 != found || (err2 == nil) != (err == nil) {
			t.Fatalf("whole: %q %v, divided: %q %v", found, err, found2, err2)
		}
	})
}
