package sandboxtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	der := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: []string{"Sandboxtest"}}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, MaxPathLenZero: true}, nil)
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// sign makes a certificate for key, or for the authority itself.
func (a *authority) sign(t *testing.T, c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	parent := a.cert
	if key == nil {
		key, parent = a.key, c
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// leaf is a certificate for localhost with its key, in PEM.
func (a *authority) leaf(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, key)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
}

// tlsServer answers requests over TLS. It prints its port and lives until it is killed.
//
//go:embed programs/tls_server.py
var tlsServer string

// tlsServer starts a server whose certificate the authority signed, and returns its URL.
func (b *Sandbox) tlsServer(t *testing.T, a *authority) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	if err := b.Guest.WriteFile(ctx, "", "/tmp/leaf.pem", bytes.NewReader(a.leaf(t))); err != nil {
		t.Fatal(err)
	}
	return "https://localhost:" + b.port(t, tlsServer, "/tmp/leaf.pem")
}

// port starts a program in Python that prints a port.
func (b *Sandbox) port(t *testing.T, script string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	ps, err := b.Guest.Start(ctx, &envd.StartRequest{Process: &envd.ProcessConfig{Cmd: "python3", Args: append([]string{"-c", script}, args...)}}, envd.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer ps.Close()
	var out string
	for !strings.Contains(out, "\n") {
		ev, err := ps.Next()
		if err != nil {
			t.Fatal(err)
		}
		if ev.End != nil {
			t.Fatalf("the server ended: %+v", ev.End)
		}
		if ev.Data != nil {
			out += string(ev.Data.Stdout)
		}
	}
	return strings.TrimSpace(out)
}

// trust makes the sandbox trust authorities.
func (b *Sandbox) trust(t *testing.T, authorities ...*authority) {
	t.Helper()
	var bundle []byte
	for _, a := range authorities {
		bundle = append(bundle, a.pem...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(60*time.Second))
	defer cancel()
	if err := b.Guest.Trust(ctx, bundle); err != nil {
		t.Fatalf("trust: %v", err)
	}
}

// stores shows what programs trust, to compare it.
const stores = `cd /etc; for f in ssl/certs/ca-certificates.crt pki/tls/certs/ca-bundle.crt ssl/cert.pem ssl/certs/java/cacerts; do
[ -e $f ] && sha256sum $f; done; find . \( -name '*hortus*' -o -lname '*hortus*' \) 2>/dev/null | sort; find . -name '.hortus-*' 2>/dev/null; env | grep -c '/etc/ssl/hortus'; true`

func trustCases() []Case {
	needs := []api.Capability{api.CapStart, api.CapPrivateFiles}
	return []Case{
		{Name: "trust/programs", Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			a := newAuthority(t, "Authority of a Test")
			url := b.tlsServer(t, a)
			before := b.sh(t, stores)
			b.connect(t, url, "", once, none)
			b.trust(t, a)
			b.trust(t, a) // again
			b.connect(t, url, "", once, all)
			// Another one replaces it, and the removal leaves nothing.
			b.trust(t, newAuthority(t, "Another Authority"), newAuthority(t, "Authority of a Test"))
			b.connect(t, url, "", always, none)
			b.trust(t)
			b.sh(t, stores).want(t, 0, before.Stdout)
		}},
		{Name: "trust/a-program", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			a := newAuthority(t, "Authority of a Test")
			get := `python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1])' ` + b.tlsServer(t, a) + " >/dev/null 2>&1"
			b.sh(t, get).want(t, 1, "")
			b.trust(t, a)
			b.sh(t, get).want(t, 0, "")
		}},
		{Name: "trust/stores-of-the-system", Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			a := newAuthority(t, "Authority of a Test")
			url := b.tlsServer(t, a)
			b.trust(t, a)
			b.connect(t, url, "unset SSL_CERT_FILE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS", always, func(p trustProgram) bool { return !p.variables })
		}},
		{Name: "trust/variables", Claimed: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, func(spec *sandbox.Spec) {
				spec.Env = map[string]string{"REQUESTS_CA_BUNDLE": "of the sandbox"}
			})
			const show = "echo $SSL_CERT_FILE, $REQUESTS_CA_BUNDLE, $NODE_EXTRA_CA_CERTS"
			b.sh(t, show).want(t, 0, ", of the sandbox,\n")
			b.trust(t, newAuthority(t, "A"))
			b.sh(t, show).want(t, 0, "/etc/ssl/hortus/bundle.pem, of the sandbox, /etc/ssl/hortus/ca.pem\n")
			b.sh(t, "NODE_EXTRA_CA_CERTS=mine; "+show).want(t, 0, "/etc/ssl/hortus/bundle.pem, of the sandbox, mine\n")
			b.sh(t, "tail -n1 $SSL_CERT_FILE | cut -c1-5; head -n1 $NODE_EXTRA_CA_CERTS | cut -c1-7").want(t, 0, "# END\n# BEGIN\n")
			b.trust(t)
			b.sh(t, show).want(t, 0, ", of the sandbox,\n")
		}},
		{Name: "trust/refused", Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			a := newAuthority(t, "A")
			before := b.sh(t, stores)
			for name, bundle := range map[string][]byte{
				"leaf and key": a.leaf(t), "text": []byte("text"), "text behind": append(bytes.Clone(a.pem), "text"...),
				"nine": bytes.Repeat(a.pem, 9), "large": bytes.Repeat([]byte("\n"), envd.MaxTrust+1),
				"cut": a.pem[:len(a.pem)/2],
			} {
				var e *envd.Error
				err := b.Guest.Trust(t.Context(), bundle)
				if api.KindOf(err) != api.KindInvalid && !(errors.As(err, &e) && e.HTTPStatus() == 400) {
					t.Errorf("%s: %v", name, err)
				}
			}
			b.sh(t, stores).want(t, 0, before.Stdout)
			// A program of the sandbox cannot do it.
			b.sh(t, `python3 -c 'import http.client
c = http.client.HTTPConnection("127.0.0.1", 49983)
c.request("PUT", "/hortus/trust", "")
print(c.getresponse().status)'`).want(t, 0, "404\n")
		}},
		{Name: "trust/not-on-the-host", Needs: start1, Check: func(t *testing.T, s *Suite) {
			if _, ok := s.Report.Has(api.CapPrivateFiles); ok {
				t.Skip("the files are the sandbox's own")
			}
			b := s.start(t, nil)
			before := b.sh(t, stores)
			var e *envd.Error
			if err := b.Guest.Trust(t.Context(), newAuthority(t, "A").pem); !errors.As(err, &e) || e.Code != envd.CodeNotFound {
				t.Errorf("%v; want code not_found", err)
			}
			b.sh(t, stores).want(t, 0, before.Stdout)
		}},
		{Name: "trust/links-are-not-followed", PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			user := "root"
			if _, ok := s.Report.Has(api.CapRootIdentity); !ok {
				user = "user"
			}
			// Every store is a link or a special file, and a directory is one too.
			const plant = `set -e; cd /etc/ssl; echo kept >/workspace/target; mkdir -p /workspace/dir certs hortus
rm -f certs/ca-certificates.crt; ln -s /workspace/target certs/ca-certificates.crt
rm -f cert.pem; mkfifo cert.pem; ln -s /workspace/target hortus/ca.pem; ln -s /proc/self/mem hortus/bundle.pem
rm -rf certs/java; ln -s /workspace/dir certs/java; echo kept >/workspace/dir/cacerts`
			b.run(t, user, "sh", "-c", plant).want(t, 0, "")
			err := b.Guest.Trust(t.Context(), newAuthority(t, "A").pem)
			if err == nil || !strings.Contains(err.Error(), "/etc/ssl/cert.pem") || strings.Contains(err.Error(), "ca-certificates.crt") {
				t.Errorf("want only the FIFO as an error: %v", err)
			}
			b.sh(t, "cat /workspace/target /workspace/dir/cacerts; ls -A /workspace/dir; [ -f /etc/ssl/hortus/ca.pem ] && [ ! -L /etc/ssl/hortus/ca.pem ] && echo own").want(t, 0, "kept\nkept\ncacerts\nown\n")
		}},
		{Name: "trust/bundle-made-again", Needs: append(needs, api.CapRootIdentity), Check: func(t *testing.T, s *Suite) {
			b := s.start(t, nil)
			const again, hook = "/etc/ssl/certs/ca-certificates.crt", "/etc/ca-certificates/update.d/hortus-sandbox"
			b.trust(t, newAuthority(t, "A"))
			if r := b.run(t, "root", "sh", "-c", "[ -x "+hook+" ]"); r.Code() != 0 {
				t.Skip("the sandbox's bundle is not that of Debian or Alpine")
			}
			b.run(t, "root", "sh", "-c", "echo roots >"+again+"; "+hook+"; grep -c 'END certificate authority' "+again+"; head -n1 "+again).want(t, 0, "1\nroots\n")
			if tier.Soaking() { // the program itself takes long
				// Java's hook takes longer, and is not needed.
				r := b.run(t, "root", "sh", "-c", "rm -f /etc/ca-certificates/update.d/jks-keystore; update-ca-certificates 2>&1; grep -c 'END certificate authority' "+again+"; readlink /etc/ssl/certs/* | grep -c hortus-sandbox")
				if r.Code() != 127 && !strings.HasSuffix(r.Stdout, "\n1\n1\n") {
					t.Errorf("after update-ca-certificates: %s%s", r.Stdout, r.Stderr)
				}
			}
		}},
		{Name: "trust/survives-a-save", Claimed: true, PerUser: true, Needs: needs, Check: func(t *testing.T, s *Suite) {
			s.restorer(t)
			b := s.start(t, nil)
			a, other := newAuthority(t, "A"), newAuthority(t, "B")
			b.trust(t, a)
			if _, ok := s.Report.Has(api.CapPause); ok {
				if err := errors.Join(b.Machine.Pause(t.Context()), b.Machine.Resume(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			const count = "grep -c 'END certificate authority' $SSL_CERT_FILE; sha256sum <$NODE_EXTRA_CA_CERTS"
			want := b.sh(t, count)
			c := s.restore(t, s.save(t, b, sandbox.SaveOptions{}))
			c.sh(t, count).want(t, 0, want.Stdout)
			// The child may get an authority of its own.
			c.trust(t, other)
			if got := c.sh(t, count); got.Stdout == want.Stdout || !strings.HasPrefix(got.Stdout, "1\n") {
				t.Errorf("with another authority: %q", got.Stdout)
			}
			b.sh(t, count).want(t, 0, want.Stdout)
			c.trust(t)
			c.sh(t, "ls /etc/ssl/hortus; grep -c 'certificate authority' /etc/ssl/certs/ca-certificates.crt; env | grep -c /etc/ssl/hortus").want(t, 1, "0\n0\n")
		}},
	}
}
