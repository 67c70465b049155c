package api

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// SecretGrant lets a sandbox use a secret. The sandbox gets a placeholder in an environment
// variable, never the value.
type SecretGrant struct {
	Name string `json:"name"` // of the secret
	// Env is the variable; empty for the name in upper case, with "_" for "-" and ".".
	Env string `json:"env,omitempty"`
	// LifetimeMS is how long the sandbox may use the secret, from its creation, in milliseconds;
	// 0 for as long as it lives.
	LifetimeMS int64 `json:"lifetimeMs,omitempty"`
	// EndsAt is when the grant ends or has ended, and Revoked is true if it was taken from the
	// sandbox. Answers have them; a request must not. A fork has the end of its parent.
	EndsAt  *time.Time `json:"endsAt,omitempty"`
	Revoked bool       `json:"revoked,omitempty"`
}

// Ended reports whether a grant has ended.
func (g SecretGrant) Ended(now time.Time) bool {
	return g.Revoked || g.EndsAt != nil && !now.Before(*g.EndsAt)
}

// Bounds on grants of secrets.
const (
	MaxSecretName   = 63 // bytes
	MaxSecretGrants = 64 // of a sandbox
	// The lifetime of a grant is 0, or between these.
	MinSecretLifetime = time.Second
	MaxSecretLifetime = 366 * 24 * time.Hour
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

// CheckSecretGrants refuses grants that are malformed, too many, or that name a secret or set a
// variable twice: KindInvalid.
func CheckSecretGrants(grants []SecretGrant) error {
	if len(grants) > MaxSecretGrants {
		return Errorf(KindInvalid, "%d secrets; the maximum for a sandbox is %d", len(grants), MaxSecretGrants)
	}
	seen, named := map[string]bool{}, map[string]bool{}
	for _, g := range grants {
		name := g.Variable()
		switch {
		case !ValidSecretName(g.Name):
			return Errorf(KindInvalid, "%.80q is not the name of a secret", g.Name)
		case name == "" || len(name) > MaxLabelName || strings.ContainsAny(name, "=\x00") || !utf8.ValidString(name):
			return Errorf(KindInvalid, "%.80q is not the name of an environment variable", name)
		case g.EndsAt != nil || g.Revoked:
			return Errorf(KindInvalid, "the grant of secret %s has an end: it is given as a lifetime (lifetimeMs)", g.Name)
		case g.LifetimeMS != 0 && (g.LifetimeMS < MinSecretLifetime.Milliseconds() || g.LifetimeMS > MaxSecretLifetime.Milliseconds()):
			return Errorf(KindInvalid, "the grant of secret %s has a lifetime of %d ms; it can be between %s and %s", g.Name, g.LifetimeMS, MinSecretLifetime, MaxSecretLifetime)
		case named[g.Name]:
			return Errorf(KindInvalid, "secret %s is there twice; a sandbox has one variable for a secret", g.Name)
		case seen[name]:
			return Errorf(KindInvalid, "two secrets set the environment variable %.80q", name)
		}
		seen[name], named[g.Name] = true, true
	}
	return nil
}
