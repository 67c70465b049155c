package authority

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func newCA(t testing.TB, secret byte, lineage string) *CA {
	t.Helper()
	a, err := New(bytes.Repeat([]byte{secret}, 32))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := a.CA(lineage)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func pool(t testing.TB, c *CA) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(c.PEM()) {
		t.Fatal("the certificate is not usable")
	}
	return p
}

func verify(t testing.TB, by *CA, leaf *tls.Certificate, name string, at time.Time) error {
	t.Helper()
	_, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool(t, by), DNSName: name, CurrentTime: at})
	return err
}

func TestDeterministic(t *testing.T) {
	first, second := newCA(t, 1, "lin_a"), newCA(t, 1, "lin_a")
	if !bytes.Equal(first.PEM(), second.PEM()) || !first.key.Equal(second.key) {
		t.Error("the certificates of one lineage differ")
	}
	for _, other := range []*CA{newCA(t, 2, "lin_a"), newCA(t, 1, "lin_b")} {
		if first.key.Equal(other.key) || bytes.Equal(first.cert.SubjectKeyId, other.cert.SubjectKeyId) {
			t.Error("two lineages have the same key")
		}
	}
	leaf, err := first.Leaf("example.org")
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t, second, leaf, "example.org", time.Now()); err != nil {
		t.Error(err)
	}
	if verify(t, newCA(t, 1, "lin_b"), leaf, "example.org", time.Now()) == nil {
		t.Error("the authority of another lineage verifies it")
	}
	if verify(t, second, leaf, "example.com", time.Now()) == nil {
		t.Error("it is valid for another name")
	}
}

func TestCertificates(t *testing.T) {
	ca := newCA(t, 1, "lin_a")
	block, rest := pem.Decode(ca.PEM())
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || len(rest) != 0 || strings.Contains(string(ca.PEM()), "PRIVATE") {
		t.Fatal(err, rest)
	}
	if !cert.IsCA || !cert.MaxPathLenZero || cert.Subject.CommonName != "Hortus sandbox lin_a" || cert.SerialNumber.Sign() <= 0 {
		t.Errorf("%+v", cert)
	}
	leaf, err := ca.Leaf("registry.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if l := leaf.Leaf; l.IsCA || time.Until(l.NotAfter) > 7*24*time.Hour || time.Since(l.NotBefore) < 59*time.Minute {
		t.Errorf("valid from %s to %s, CA %v", leaf.Leaf.NotBefore, leaf.Leaf.NotAfter, leaf.Leaf.IsCA)
	}
	long := newCA(t, 1, strings.Repeat("x", 300))
	if _, err := long.Leaf(strings.Repeat("abcdefgh.", 20) + "org"); err != nil {
		t.Error(err)
	}
}

func TestRefusedNames(t *testing.T) {
	ca := newCA(t, 1, "lin_a")
	for _, name := range []string{"", ".", "a..b", "a.", ".a", "A.org", "a b", "*.example.org", "a\x00.org", "10.0.0.1:80", "é.org", strings.Repeat("a", 64) + ".org", strings.Repeat("a.", 127)} {
		if _, err := ca.Leaf(name); err == nil {
			t.Errorf("%q has a certificate", name)
		}
	}
	if len(ca.leaves) != 0 {
		t.Errorf("%d errors are kept", len(ca.leaves))
	}
	if _, err := New(make([]byte, 31)); err == nil {
		t.Error("a short secret was accepted")
	}
	a, _ := New(make([]byte, 32))
	if _, err := a.CA(""); err == nil {
		t.Error("an empty lineage was accepted")
	}
}

func TestLeavesKept(t *testing.T) {
	ca := newCA(t, 1, "lin_a")
	now := time.Now()
	ca.now = func() time.Time { return now }
	first, err := ca.Leaf("example.org")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := ca.Leaf("example.org"); again != first {
		t.Error("it was made twice")
	}
	now = now.Add(4 * 24 * time.Hour)
	renewed, err := ca.Leaf("example.org")
	if err != nil || renewed == first {
		t.Error("it was not renewed", err)
	}
	if err := verify(t, ca, renewed, "example.org", now.Add(3*24*time.Hour)); err != nil {
		t.Error(err)
	}
	for i := range maxLeaves + 10 {
		if _, err := ca.Leaf(fmt.Sprintf("n%d.example.org", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(ca.leaves); n != maxLeaves || ca.recent.Len() != n {
		t.Errorf("%d leaves are kept", n)
	}
}

func TestLeavesConcurrent(t *testing.T) {
	ca := newCA(t, 1, "lin_a")
	var all sync.WaitGroup
	certs := make([]*tls.Certificate, 16)
	for i := range certs {
		all.Go(func() { certs[i], _ = ca.Leaf("example.org") })
	}
	all.Wait()
	for _, c := range certs {
		if c == nil || c != certs[0] {
			t.Fatal("it was made more than once")
		}
	}
}

// FuzzLeaf checks that a certificate is for exactly the name that was asked for.
func FuzzLeaf(f *testing.F) {
	for _, s := range []string{"example.org", "a_b.example.org", "xn--bcher-kva.example", "", "a..b", "1.2.3.4"} {
		f.Add(s)
	}
	ca := newCA(f, 1, "lin_a")
	f.Fuzz(func(t *testing.T, name string) {
		leaf, err := ca.Leaf(name)
		if err != nil {
			return
		}
		if n := leaf.Leaf.DNSNames; len(n) != 1 || n[0] != name || len(leaf.Leaf.IPAddresses) != 0 {
			t.Fatalf("%q: %q", name, n)
		}
	})
}

func BenchmarkLeaf(b *testing.B) {
	ca := newCA(b, 1, "lin_a")
	for i := 0; b.Loop(); i++ {
		if _, err := ca.Leaf(fmt.Sprintf("n%d.example.org", i)); err != nil {
			b.Fatal(err)
		}
	}
}
