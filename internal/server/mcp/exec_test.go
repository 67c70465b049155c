package mcp

import (
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestWindow cuts an output into pieces of any size: what is kept does not depend on them.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		name, in string
		page     bool
		want     string
		left     int64
	}{
		{"nothing", "", false, "", 0},
		{"short", "abc", false, "abc", 0},
		{"just as much", "abcdefgh", false, "abcdefgh", 0},
		{"one too many", "abcdefghi", false, "abcd\n[1 bytes left out]\nfghi", 1},
		{"much", "abcd" + strings.Repeat("x", 100) + "efgh", false, "abcd\n[100 bytes left out]\nefgh", 100},
		{"a page", "abcdefghijk", true, "abcdefgh", 0},
		{"a page that ends within a rune", "abcdefgä", true, "abcdefg", 0},
		{"a page of a rune", "abcdefä", true, "abcdefä", 0},
	} {
		for size := 1; size <= len(c.in)+1; size++ {
			w := window{half: 4, page: c.page}
			for at := 0; at < len(c.in) && !w.full(); at += size {
				w.add(100+int64(at), []byte(c.in[at:min(at+size, len(c.in))]))
			}
			got, begin := w.text()
			if got != c.want || w.left != c.left || w.begun && begin != 100 {
				t.Errorf("%s in pieces of %d: %q from %d, %d left out", c.name, size, got, begin, w.left)
			}
			if most := 3 * (w.half + size); len(w.head)+cap(w.tail) > 2*most+8 {
				t.Errorf("%s in pieces of %d: %d bytes are kept", c.name, size, cap(w.tail))
			}
		}
	}
}

func TestPortURL(t *testing.T) {
	const id = api.SandboxID("i4f20000000000000000")
	for base, want := range map[string]string{
		"http://127.0.0.1:7070":         "http://3000-i4f20000000000000000.localhost:7070/",
		"http://[::1]:7070":             "http://3000-i4f20000000000000000.localhost:7070/",
		"https://hortus.example.org":    "https://3000-i4f20000000000000000.hortus.example.org/",
		"http://192.0.2.1:7070":         "", // it has no names
		"":                              "",
		"http://a b":                    "",
		"http://hortus.example.org:bad": "",
	} {
		if got := portURL(base, id, 3000); got != want {
			t.Errorf("%q: %q, want %q", base, got, want)
		}
	}
}
