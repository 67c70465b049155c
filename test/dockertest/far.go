package dockertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Far is an engine that is reached by TCP with TLS, and that sees nothing of the temporary directories of its test: a mount of one of
// them shows an empty directory.
type Far struct {
	*Engine
	// Address is where it listens, tcp://HOST:PORT. Certificates is the directory with ca.pem, cert.pem and key.pem of a client.
	Address, Certificates string
}

// StartFar is Start for such an engine.
func StartFar(t testing.TB) *Far {
	t.Helper()
	if err := missing(); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "docker-")
	if err != nil {
		t.Fatal(err)
	}
	f := &Far{Engine: &Engine{Dir: dir, Host: "unix://" + filepath.Join(dir, "s")}, Certificates: filepath.Join(dir, "client")}
	server := filepath.Join(dir, "server")
	if err := certificates(server, f.Certificates); err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	f.Address = "tcp://" + l.Addr().String()
	l.Close()
	f.args = []string{"-H", f.Address, "--tlsverify", "--tlscacert", filepath.Join(server, "ca.pem"), "--tlscert", filepath.Join(server, "cert.pem"), "--tlskey", filepath.Join(server, "key.pem")}
	f.hide = os.TempDir()
	if err := f.Run(); err != nil {
		t.Fatal(errors.Join(err, os.RemoveAll(dir)))
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// certificates writes those of an authority, and of what it has signed, into one directory for each end.
func certificates(server, client string) error {
	authority, err := newPair(nil, "authority")
	if err != nil {
		return err
	}
	for dir, name := range map[string]string{server: "server", client: "client"} {
		p, err := newPair(authority, name)
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err != nil {
			return err
		}
		key, err := x509.MarshalPKCS8PrivateKey(p.key)
		if err != nil {
			return err
		}
		for file, block := range map[string]*pem.Block{
			"ca.pem": {Type: "CERTIFICATE", Bytes: authority.cert.Raw}, "cert.pem": {Type: "CERTIFICATE", Bytes: p.cert.Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
		} {
			if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newPair makes a pair that by has signed; nil is an authority that signs itself.
func newPair(by *pair, name string) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	if by == nil {
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
		by = &pair{cert: c, key: key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	return &pair{cert: cert, key: key}, err
}
