package policy

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"hortus.dev/api"
)

func TestNormalize(t *testing.T) {
	label := strings.Repeat("a", maxLabel)
	longest := strings.Repeat(label+".", 3) + strings.Repeat("b", 61)
	for in, want := range map[string]string{
		"example.org":       "example.org",
		"EXAMPLE.org.":      "example.org",
		"localhost":         "localhost",
		"_dmarc.a_b.org":    "_dmarc.a_b.org",
		"xn--BCHER-kva.org": "xn--bcher-kva.org",
		"1.example.org":     "1.example.org",
		"127.1.example":     "127.1.example",
		"0x7f.example":      "0x7f.example",
		"0xbeer":            "0xbeer",
		"1e5.org":           "1e5.org",
		"8000-8999":         "8000-8999",
		longest:             longest,
		longest + ".":       longest,
	} {
		got, err := Normalize(in)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", ".", "..", "a..b", ".a", "a..", "-a.org", "a-.org", "a.-", "a b.org", "a\x00.org", "a/b", "a:80", "a@b", "a,b", "*",
		"*.example.org", "[::1]", "bücher.example", "example.org\n", " example.org", "ｅxample.org", "example。org",
		"example.org%00", "ex\u212Ample.org", label + "a.org", longest + "b", longest + "b.", strings.Repeat("a.", 5000),
	} {
		if got, err := Normalize(in); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// oddAddresses are addresses in forms that a program between the sandbox and the socket may
// read: the C library, curl, browsers, Python.
var oddAddresses = []string{
	"127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "2130706433.", "017700000001", "0177.0.0.1", "0x7f000001",
	"0x7f.1", "0X7F.0.0.1", "0x7f.0x0.0x0.0x1", "127.0.0.0x1", "0x", "0x.0x", "00000177.0.0.1", "127.0.0.01", "0", "1.2.3.4.5",
	"a.1", "example.0x7f", "4294967296", "99999999999999999999", "::1", "::ffff:127.0.0.1", "fe80::1%eth0", "0:0:0:0:0:0:0:1", "::",
	"１２７.0.0.1", "127。0。0。1", "①27.0.0.1",
}

func TestNormalizeAddresses(t *testing.T) {
	for _, in := range oddAddresses {
		if got, err := Normalize(in); api.KindOf(err) != api.KindInvalid {
			t.Errorf("%q passes as the name %q: %v", in, got, err)
		}
		// Those that are addresses in canonical text are targets, the others are nothing.
		to, err := NewTarget(in, 80)
		addr, parseErr := netip.ParseAddr(in)
		if (err == nil) != (parseErr == nil && addr.Zone() == "") {
			t.Errorf("%q: target %v, %v", in, to, err)
		}
	}
	// The control: without the check of numbers, the labels are correct names.
	for _, in := range []string{"2130706433", "0x7f.1", "127.1"} {
		if misspelt(in) != "" {
			t.Errorf("%q is not a name by its labels: the test shows nothing", in)
		}
	}
}

func FuzzNormalize(f *testing.F) {
	for _, s := range append(oddAddresses, "example.org", "A_b.example.", "*.a", "a-.b") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Normalize(s)
		if normal(s) != (err == nil && n == s) {
			t.Fatalf("normal(%q) is %v, Normalize: %q, %v", s, normal(s), n, err)
		}
		if err != nil {
			if api.KindOf(err) != api.KindInvalid {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if again, err := Normalize(n); err != nil || again != n {
			t.Fatalf("%q, then %q, then %q, %v", s, n, again, err)
		}
		if net.ParseIP(n) != nil || len(n) > maxName || strings.ToLower(n) != n || strings.HasSuffix(n, ".") {
			t.Fatalf("%q is not a name: %q", s, n)
		}
		last := n[strings.LastIndexByte(n, '.')+1:]
		if strings.Trim(last, "0123456789") == "" {
			t.Fatalf("%q ends in a number", n)
		}
		to, err := NewTarget(s, 1)
		if err != nil || to.Host != n {
			t.Fatalf("NewTarget(%q) is %v, %v", s, to, err)
		}
		if e, ok := to.resolve(); !ok || e.name != n {
			t.Fatalf("%v is not a name", to)
		}
	})
}
