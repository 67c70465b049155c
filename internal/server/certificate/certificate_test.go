package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// write makes a certificate of its own for a name, valid for a while, and writes it into two files.
func write(t *testing.T, dir, name string, from, until time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(from.UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until, DNSNames: []string{"*." + name, name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestErrors: what cannot be used is refused at the start, with what to do.
func TestErrors(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		change        func(cfg *Config)
		message, hint string
	}{
		"one file":       {func(c *Config) { c.KeyFile = "" }, "only one of", "set both"},
		"files and ACME": {func(c *Config) { c.Names = []string{"a.example"} }, "both", "one of them"},
		"no file":        {func(c *Config) { c.CertFile += "x" }, "no such file", "path"},
		"a directory":    {func(c *Config) { c.CertFile = filepath.Dir(c.CertFile) }, "not a PEM file", ""},
		"not PEM":        {func(c *Config) { os.WriteFile(c.CertFile, []byte("x"), 0o600) }, "are not a certificate and its key", "PEM"},
		"another key": {func(c *Config) {
			_, key := write(t, t.TempDir(), "b.example", now.Add(-time.Hour), now.Add(time.Hour))
			c.KeyFile = key
		}, "are not a certificate and its key", "PEM"},
		"a key for everybody":  {func(c *Config) { os.Chmod(c.KeyFile, 0o644) }, "every user can read", "chmod 600"},
		"expired":              {func(c *Config) { c.Now = func() time.Time { return now.Add(48 * time.Hour) } }, "expired on", "renew"},
		"not yet valid":        {func(c *Config) { c.Now = func() time.Time { return now.Add(-48 * time.Hour) } }, "not valid before", "clock"},
		"a wildcard of ACME":   {func(c *Config) { *c = Config{Names: []string{"*.a.example"}} }, "wildcard", "serve.tls-cert"},
		"an address of ACME":   {func(c *Config) { *c = Config{Names: []string{"192.0.2.1"}} }, "not a host name", "lower case"},
		"a port of ACME":       {func(c *Config) { *c = Config{Names: []string{"a.example:443"}} }, "not a host name", "without a port"},
		"a directory of http":  {func(c *Config) { *c = Config{Names: []string{"a.example"}, Directory: "http://ca.example"} }, "not an https URL", ""},
		"authorities not PEM":  {func(c *Config) { *c = Config{Names: []string{"a.example"}, CAFile: c.KeyFile} }, "no certificate", ""},
		"unreadable by a user": {func(c *Config) { os.Chmod(c.KeyFile, 0) }, "permission denied", "must be able to read"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "unreadable") && os.Getuid() == 0 {
				t.Skip("root can read every file")
			}
			cert, key := write(t, t.TempDir(), "a.example", now.Add(-time.Hour), now.Add(24*time.Hour))
			cfg := Config{CertFile: cert, KeyFile: key}
			c.change(&cfg)
			_, err := Open(cfg)
			if err == nil || !strings.Contains(err.Error(), c.message) || !strings.Contains(api.HintOf(err), c.hint) {
				t.Errorf("%v, hint %q", err, api.HintOf(err))
			}
		})
	}
}

// TestReload: new files are used without a restart; broken ones are not, and the log says why.
func TestReload(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	cert, key := write(t, dir, "a.example", now.Add(-time.Hour), now.Add(10*24*time.Hour))
	var log bytes.Buffer
	s, err := Open(Config{CertFile: cert, KeyFile: key, Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	name := func() string {
		t.Helper()
		now = now.Add(lookEvery)
		c, err := s.TLS().GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.Subject.CommonName
	}
	if got := name(); got != "a.example" || s.Name() != "a.example" || !s.Covers("3000-i0.a.example") || s.Covers("x.b.example") {
		t.Fatalf("%s, %s", got, s.Name())
	}
	if err := os.WriteFile(cert, []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "a.example" || strings.Count(log.String(), "is not used") != 1 {
		t.Errorf("with a broken file: %s\n%s", got, &log)
	}
	name()
	if n := strings.Count(log.String(), "is not used"); n != 1 {
		t.Errorf("a broken file is logged %d times in four seconds", n)
	}
	write(t, dir, "b.example", now.Add(-time.Hour), now.Add(10*24*time.Hour))
	if got := name(); got != "b.example" || s.Name() != "b.example" {
		t.Errorf("with new files: %s", got)
	}
	if strings.Contains(log.String(), "expires soon") {
		t.Errorf("ten days before its end:\n%s", &log)
	}
	now = now.Add(5 * 24 * time.Hour)
	name()
	name()
	if n := strings.Count(log.String(), "expires soon"); n != 1 {
		t.Errorf("five days before its end it was warned of %d times:\n%s", n, &log)
	}
}
