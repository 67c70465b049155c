package story

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/test/tier"
)

// TestSecretAfterKill has a sandbox use a secret before and after its daemon is killed: the next
// daemon adopts it, and knows its placeholder. Then the secret is removed, set again, and taken from
// the sandbox.
func TestSecretAfterKill(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0")
	server, seen := g.greeter(t, "Authorization")
	value := "canary-" + rand.Text()
	set := func() {
		t.Helper()
		if r := g.input(strings.NewReader(value+"\n"), "secret", "set", "crm", "--to", "https://"+server); r.code != 0 {
			t.Fatal(r)
		}
	}
	set()
	isolations := g.isolations(t)
	if !tier.Soaking() {
		isolations = isolations[:1] // gvisor is slow; test/daemon has the rest with it
	}
	for _, isolation := range isolations {
		id := strings.TrimSpace(g.must("sandbox", "create", "--quiet", "--isolation", isolation, "--secret", "TOKEN=crm@24h", "--egress", server+",private"))
		use := func() result {
			t.Helper()
			return g.run("sandbox", "exec", id, "--", "sh", "-c", `echo "[$TOKEN]"; curl -sSf -x http://127.0.0.1:3128 -H "Authorization: Bearer $TOKEN" https://`+server+"/")
		}
		if r := g.run("sandbox", "exec", id, "--", "sh", "-c", "command -v curl"); r.code != 0 {
			t.Skipf("the sandbox has no curl: %s", r)
		}
		works := func(when string) (placeholder string) {
			t.Helper()
			r := use()
			if all := seen(); r.code != 0 || all != "Bearer "+value || strings.Contains(r.stdout, value) || !strings.Contains(r.stdout, "hello Bearer hortus-secret-") {
				t.Errorf("%s: the server got %q, %s", when, all, r)
			}
			placeholder, _, _ = strings.Cut(r.stdout, "\n")
			return placeholder
		}
		refused := func(when string) {
			t.Helper()
			before := strings.Count(g.must("secret", "uses", "--refused", "--json"), id)
			r := use()
			if all := seen(); all != "" || r.code == 0 || strings.Contains(r.stdout, "hello") || !strings.Contains(r.stdout, "[hortus-secret-") || !strings.Contains(r.stderr, "See the secret's bindings.") || strings.Contains(r.stderr, "To allow it") {
				t.Errorf("%s: the server got %q, %s", when, all, r)
			}
			if after := strings.Count(g.must("secret", "uses", "--refused", "--json"), id); after <= before {
				t.Errorf("%s: no alarm: %s", when, r)
			}
		}
		first := works("at first")
		g.killDaemon(t)
		if next := works("after the daemon was killed"); next != first {
			t.Errorf("the placeholder was %s and is %s", first, next)
		}
		g.must("secret", "rm", "crm")
		refused("after the secret was removed")
		g.killDaemon(t)
		refused("after it was removed and the daemon was killed")
		set()
		works("after it was set again")
		if out := g.must("sandbox", "show", id); !strings.Contains(out, "crm in TOKEN, until ") {
			t.Error(out)
		}
		g.must("sandbox", "secret", "rm", id, "crm")
		refused("after it was taken from the sandbox")
		g.killDaemon(t)
		refused("after it was taken from the sandbox and the daemon was killed")
		last, _, _ := strings.Cut(g.must("secret", "uses", "--refused", "--json", "--limit", "1"), "\n")
		if !strings.Contains(last, `"secret":"crm"`) || !strings.Contains(last, "the secret was taken from the sandbox") {
			t.Errorf("the last refusal is %s", last)
		}
		if out := g.must("sandbox", "show", id); !strings.Contains(out, "crm in TOKEN, taken at ") {
			t.Error(out)
		}
		// The control of the hint.
		if r := g.run("sandbox", "exec", id, "--", "curl", "-sS", "-x", "http://127.0.0.1:3128", "https://other.example.org"); !strings.Contains(r.stderr, "To allow it: hortus egress allow "+id+" other.example.org") {
			t.Errorf("a host that is not allowed: %s", r)
		}
		g.must("sandbox", "kill", id)
	}
}

// localhost starts a server with the name localhost, over TLS. It returns its address and a file
// with its certificate.
func localhost(t *testing.T, h http.HandlerFunc) (address, roots string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	roots = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return "localhost:" + port, roots
}

// greeter starts a server that greets with a header of each request, and has the daemon trust it. seen
// returns the values since its last call, a line each.
func (g *garden) greeter(t *testing.T, header string) (server string, seen func() string) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	server, roots := localhost(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get(header))
		fmt.Fprintln(w, "hello", r.Header.Get(header))
	})
	g.env = append(g.env, "HORTUS_EGRESS_CA_FILE="+roots)
	return server, func() string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { got = nil }()
		return strings.Join(got, "\n")
	}
}
