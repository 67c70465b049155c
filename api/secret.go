package api

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// SecretGrant lets a sandbox use a secret. The sandbox gets a placeholder in an environment
// variable, never the value.
type SecretGrant struct {
	Name string `json:"name"` // of the secret
	// Env is the variable; empty for the name in upper case, with "_" for "-" and ".".
	Env string `json:"env,omitempty"`
}

// Bounds on grants of secrets.
const (
	MaxSecretName   = 63 // bytes
	MaxSecretGrants = 64 // of a sandbox
)

var secretName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// ValidSecretName reports whether a name can be that of a secret: 1 to MaxSecretName lower-case
// letters, digits, ".", "_" and "-", beginning with a letter or a digit; "uses" is reserved,
// because of the path /v1/secrets/uses.
func ValidSecretName(name string) bool { return secretName.MatchString(name) && name != "uses" }

// Variable returns the environment variable that a grant sets.
func (g SecretGrant) Variable() string {
	if g.Env != "" {
		return g.Env
	}
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(g.Name))
}

// CheckSecretGrants refuses grants that are malformed, too many, or that set a variable twice:
// KindInvalid.
func CheckSecretGrants(grants []SecretGrant) error {
	if len(grants) > MaxSecretGrants {
		return Errorf(KindInvalid, "%d secrets; the maximum for a sandbox is %d", len(grants), MaxSecretGrants)
	}
	seen := map[string]bool{}
	for _, g := range grants {
		name := g.Variable()
		switch {
		case !ValidSecretName(g.Name):
			return Errorf(KindInvalid, "%.80q is not the name of a secret", g.Name)
		case name == "" || len(name) > MaxLabelName || strings.ContainsAny(name, "=\x00") || !utf8.ValidString(name):
			return Errorf(KindInvalid, "%.80q is not the name of an environment variable", name)
		case seen[name]:
			return Errorf(KindInvalid, "two secrets set the environment variable %.80q", name)
		}
		seen[name] = true
	}
	return nil
}
