package sealed

import (
	"crypto/rand"
	"errors"
	"fmt"
)

// Secret encrypts the value of a secret for its row.
func (s *Sealer) Secret(account, name, value string) []byte {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(value)+s.aead.Overhead())
	rand.Read(nonce)
	return s.aead.Seal(nonce, nonce, []byte(value), secretOf(account, name))
}

// OpenSecret decrypts the value of a secret. It fails if the key does not fit, and for the value
// of another row.
func (s *Sealer) OpenSecret(account, name string, sealed []byte) (string, error) {
	n := s.aead.NonceSize()
	if len(sealed) <= n {
		return "", errors.New("the sealed value is too short")
	}
	plain, err := s.aead.Open(nil, sealed[:n], sealed[n:], secretOf(account, name))
	return string(plain), err
}

// secretOf is the additional data of a secret's value. The length separates account and name.
func secretOf(account, name string) []byte {
	return fmt.Appendf(nil, "secret.value:%d:%s:%s", len(account), account, name)
}
