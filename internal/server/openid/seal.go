package openid

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
)

// maxCookie is the maximum length of the cookie of a sign-in.
const maxCookie = 2 << 10

// sealer encrypts sign-ins.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret []byte) (sealer, error) {
	key := sha256.Sum256(append([]byte("hortus openid 1\n"), secret...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

func (s sealer) seal(a attempt) (string, error) {
	plain, err := json.Marshal(a)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, nil)), err
}

func (s sealer) open(cookie string) (a attempt, ok bool) {
	if len(cookie) > maxCookie {
		return a, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cookie)
	if err != nil {
		return a, false
	}
	plain, err := s.aead.Open(nil, nil, b, nil)
	return a, err == nil && json.Unmarshal(plain, &a) == nil
}
