package oauth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"hortus.dev/api"
)

// The kinds of sealed values. One of a kind is nothing of another.
const (
	kindClient  = "hoc_"
	kindRequest = "hoq_"
	kindCode    = "hok_"
	kindAccess  = "hot_"
	kindRefresh = "hor_"
)

// maxSealed is the maximum length of a sealed value.
const maxSealed = 8 << 10

// sealer encrypts values for those who hand them back.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret []byte) (sealer, error) {
	key := sha256.Sum256(append([]byte("hortus oauth 1\n"), secret...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

// envelope is a value with the time at which it ends.
type envelope struct {
	Ends  time.Time       `json:"e,omitzero"`
	Value json.RawMessage `json:"v"`
}

// seal encrypts a value; ends is zero for one that does not end.
func (s sealer) seal(kind string, ends time.Time, v any) (string, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(envelope{ends, value})
	if err != nil {
		return "", err
	}
	return kind + base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(kind))), nil
}

// open decrypts a value of a kind that has not ended. The error does not say what is wrong.
func (s sealer) open(kind, sealed string, now time.Time, v any) error {
	wrong := api.Errorf(api.KindUnauthenticated, "the value is not valid, or has ended")
	text, ok := strings.CutPrefix(sealed, kind)
	if !ok || len(sealed) > maxSealed {
		return wrong
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return wrong
	}
	plain, err := s.aead.Open(nil, nil, b, []byte(kind))
	if err != nil {
		return wrong
	}
	var e envelope
	if json.Unmarshal(plain, &e) != nil || !e.Ends.IsZero() && !now.Before(e.Ends) || json.Unmarshal(e.Value, v) != nil {
		return wrong
	}
	return nil
}
