package check

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"time"
)

// certificate makes a certificate for names that signs itself, and its PEM.
func certificate(names ...string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hortus doctor --egress"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// echConfigList makes a list of one configuration of Encrypted Client Hello, whose outer server
// name is public.
func echConfigList(public string) ([]byte, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block := func(b []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) }
	contents := []byte{1, 0x00, 0x20} // an ID, and DHKEM(X25519, HKDF-SHA256)
	contents = append(contents, block(key.PublicKey().Bytes())...)
	contents = append(contents, block([]byte{0, 1, 0, 1})...) // HKDF-SHA256, AES-128-GCM
	contents = append(contents, 64, byte(len(public)))
	contents = append(contents, public...)
	contents = append(contents, 0, 0) // no extensions
	config := append([]byte{0xfe, 0x0d}, block(contents)...)
	return block(config), nil
}

// verifyWith returns how to verify a certificate of the servers.
func verifyWith(s *Servers, name string) x509.VerifyOptions {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(s.roots)
	return x509.VerifyOptions{Roots: p, DNSName: name}
}
