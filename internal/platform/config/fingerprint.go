package config

import (
	"crypto/sha256"
	"encoding/hex"
)

// OwnPrefix begins the variables that Hortus alone reads. HORTUS_OPENAI_API_KEY takes
// precedence over OPENAI_API_KEY.
const OwnPrefix = "HORTUS_"

// Fingerprint returns a short hash of the values of some variables, or "" if none is set.
// Two processes with the same values have the same fingerprint; it does not reveal them.
func Fingerprint(getenv func(string) string, names []string) string {
	h, set := sha256.New(), false
	for _, name := range names {
		value := getenv(name)
		set = set || value != ""
		h.Write([]byte(name + "\x00" + value + "\x00"))
	}
	if !set {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
