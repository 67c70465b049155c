package payload

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hortus.dev/internal/repository/forge"
)

// secretPrefix begins a secret that GitLab takes as a signing token too: the rest is the key in base64.
const secretPrefix = "whsec_"

// NewSecret returns a random signing secret, which all forges take.
func NewSecret() string {
	var key [32]byte
	rand.Read(key[:])
	return secretPrefix + base64.StdEncoding.EncodeToString(key[:])
}

// maxAge is how old, or how far in the future, a time that GitLab signs may be.
const maxAge = 5 * time.Minute

// Verify reports whether a request was made with a signing secret, in constant time for one secret. An empty secret verifies nothing.
//
// GitHub and Gitea send the HMAC-SHA256 of the body. GitLab sends the secret itself or, for a signing token, the HMAC-SHA256 of an ID, a
// time and the body, as in the Standard Webhooks specification: a request with such a signature is judged by it alone.
func Verify(kind, secret string, h http.Header, body []byte, now time.Time) bool {
	if secret == "" {
		return false
	}
	switch kind {
	case forge.GitHub:
		given, ok := strings.CutPrefix(only(h, "X-Hub-Signature-256"), "sha256=")
		return ok && signed(given, hex.DecodeString, []byte(secret), body)
	case forge.Gitea:
		return signed(only(h, "X-Gitea-Signature"), hex.DecodeString, []byte(secret), body)
	case forge.GitLab:
		if len(h.Values("Webhook-Signature")) > 0 {
			return signedToken(secret, h, body, now)
		}
		// The digests have one length, whatever was sent.
		a, b := sha256.Sum256([]byte(only(h, "X-Gitlab-Token"))), sha256.Sum256([]byte(secret))
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1
	}
	return false
}

// signedToken verifies a request with GitLab's signing token.
func signedToken(secret string, h http.Header, body []byte, now time.Time) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil || !strings.HasPrefix(secret, secretPrefix) {
		return false
	}
	id, at := only(h, "Webhook-Id"), only(h, "Webhook-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if age := now.Sub(time.Unix(seconds, 0)); err != nil || id == "" || age > maxAge || age < -maxAge {
		return false
	}
	all := strings.Fields(only(h, "Webhook-Signature"))
	for _, s := range all[:min(len(all), 8)] { // a secret that is being replaced signs too
		given, ok := strings.CutPrefix(s, "v1,")
		if ok && signed(given, base64.StdEncoding.DecodeString, key, []byte(id+"."+at+"."), body) {
			return true
		}
	}
	return false
}

// signed compares a signature with the HMAC-SHA256 of a message.
func signed(given string, decode func(string) ([]byte, error), key []byte, message ...[]byte) bool {
	want, err := decode(given)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	for _, part := range message {
		mac.Write(part)
	}
	return hmac.Equal(mac.Sum(nil), want)
}

// only returns the value of a header that is there once; "" otherwise.
func only(h http.Header, name string) string {
	if all := h.Values(name); len(all) == 1 {
		return all[0]
	}
	return ""
}
