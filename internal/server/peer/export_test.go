package peer

import (
	"crypto/ecdsa"
	"crypto/x509"
	"testing"
)

// Split returns the certificate and the key of an authority.
func Split(t testing.TB, text []byte) (*x509.Certificate, *ecdsa.PrivateKey) {
	a, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return a.cert, a.key
}
