package rest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestParseKey: a key is read in each form in which it may be stored, and what is none is refused without being shown.
func TestParseKey(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	armor := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	first := armor("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	for name, text := range map[string]string{
		"of GitHub": first, "PKCS #8": armor("PRIVATE KEY", pkcs8(key)), "one line": strings.Join(strings.Fields(first), " "),
		"CRLF": strings.ReplaceAll(first, "\n", "\r\n"), "no line breaks": strings.ReplaceAll(first, "\n", ""),
	} {
		if got, err := ParseKey(text); err != nil || !got.Equal(key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "a token": "ghp_abcdefghijkl", "half": first[:len(first)/2], "two": first + first, "a curve": armor("PRIVATE KEY", pkcs8(curve)),
		"short": armor("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(short)), "a public key": armor("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&key.PublicKey)),
		"encrypted": strings.Replace(first, "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n", 1), "no PEM": armor("RSA PRIVATE KEY", []byte("x")),
	} {
		_, err := ParseKey(text)
		if api.KindOf(err) != api.KindInvalid || len(text) > 100 && strings.Contains(err.Error(), text[60:90]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
