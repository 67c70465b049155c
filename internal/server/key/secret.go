package key

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// prefix begins every key. Clients of E2B check it.
	prefix = "e2b_"
	// secretLen is how much of a key is random, in bytes.
	secretLen = 20
	// hintLen is how much of a key is kept for people to tell it by: 16 of its 160
	// bits.
	hintLen = len(prefix) + 4
)

// generate returns a new key.
func generate() string {
	var b [secretLen]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// hash returns the stored form of a key: its SHA-256 in hexadecimal.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// wellFormed reports whether a text has the form of a key. Other texts are not hashed.
func wellFormed(presented string) bool {
	digits, ok := strings.CutPrefix(presented, prefix)
	return ok && len(digits) == 2*secretLen && strings.Trim(digits, "0123456789abcdef") == ""
}
