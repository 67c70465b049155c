package api

import (
	"cmp"
	"log/slog"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// SecretSource is where the value of a secret is from.
type SecretSource string

const (
	// SecretStored is a value that the daemon keeps, encrypted.
	SecretStored SecretSource = "value"
	// SecretVariable is an environment variable of the daemon, read at each use.
	SecretVariable SecretSource = "env"
	// SecretFile is a file of the daemon's machine, read at each use.
	SecretFile SecretSource = "file"
	// SecretCommand is the output of a command that the daemon runs. It is kept in memory
	// for the secret's lifetime.
	SecretCommand SecretSource = "command"
)

// SecretPlaceKind is a part of an HTTP request.
type SecretPlaceKind string

const (
	SecretInHeader SecretPlaceKind = "header" // anywhere in the value of a header
	SecretInQuery  SecretPlaceKind = "query"  // the whole value of a parameter
	SecretInBasic  SecretPlaceKind = "basic"  // the whole user or the whole password of basic authentication
)

// SecretPlace is where in a request a placeholder is replaced.
type SecretPlace struct {
	Kind SecretPlaceKind `json:"kind"`
	// Name is that of the header or the parameter; empty for basic authentication.
	Name string `json:"name,omitempty"`
}

// SecretSigner is what is sent in place of a placeholder.
type SecretSigner string

const (
	// SecretPlain sends the value.
	SecretPlain SecretSigner = ""
	// SecretSigV4 signs the request anew with AWS Signature Version 4. The value is a JSON
	// object with accessKeyId, secretAccessKey and, if there is one, sessionToken. A program
	// in the sandbox signs with the placeholder as its access key ID.
	SecretSigV4 SecretSigner = "aws-sigv4"
	// SecretOAuth sends an access token, which the daemon fetches with a refresh token. The
	// value is a JSON object with tokenUrl, refreshToken, clientId and, if there is one,
	// clientSecret and scope.
	SecretOAuth SecretSigner = "oauth"
)

// SecretGit restricts a binding to the smart HTTP protocol of git. What it does not state is
// refused.
type SecretGit struct {
	// Repository is the path of the repository, such as "/o/r"; a suffix ".git" is ignored.
	Repository string `json:"repository"`
	// Fetch allows clone and fetch.
	Fetch bool `json:"fetch,omitempty"`
	// Push are the refs that may be created and updated, such as "refs/heads/hortus/*". In a
	// pattern "*" is any text without "/", "**" any text.
	Push []string `json:"push,omitempty"`
	// Force allows updates that are not fast-forward, Delete the deletion of refs of Push.
	Force  bool `json:"force,omitempty"`
	Delete bool `json:"delete,omitempty"`
}

// SecretBinding is a kind of request in which a secret may be used. A request has at most one
// placeholder, and must match exactly one binding of its secret.
type SecretBinding struct {
	// Scheme is "https" (the default) or "http".
	Scheme string `json:"scheme,omitempty"`
	// Host is a name. Addresses and wildcards are not possible.
	Host string `json:"host"`
	// Port is 443 by default, or 80 for http.
	Port int `json:"port,omitempty"`
	// Methods and Paths restrict the binding, as in EgressRule; empty is any.
	Methods []string    `json:"methods,omitempty"`
	Paths   []string    `json:"paths,omitempty"`
	In      SecretPlace `json:"in"`
	Git     *SecretGit  `json:"git,omitempty"`
}

// Secret describes a secret. No answer ever has its value.
type Secret struct {
	// Name is unique among the account's secrets.
	Name    string       `json:"name"`
	Account string       `json:"account,omitempty"`
	Source  SecretSource `json:"source"`
	// From is the variable or the path; empty for a stored value. Command are the arguments
	// of the command.
	From     string          `json:"from,omitempty"`
	Command  []string        `json:"command,omitempty"`
	Signer   SecretSigner    `json:"signer,omitempty"`
	Bindings []SecretBinding `json:"bindings"`
	// LifetimeMS is how long the output of a command is used, in milliseconds.
	LifetimeMS int64     `json:"lifetimeMs,omitempty"`
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
	// UsedAt is the time of the last use, Uses the number of requests that it was used in.
	UsedAt *time.Time `json:"usedAt,omitempty"`
	Uses   int64      `json:"uses,omitempty"`
}

// SetSecret creates or replaces a secret. Its name is in the path of the request.
type SetSecret struct {
	Source SecretSource `json:"source,omitempty"` // SecretStored by default
	// Value is the value of a stored secret.
	Value      string          `json:"value,omitempty"`
	From       string          `json:"from,omitempty"`
	Command    []string        `json:"command,omitempty"`
	Signer     SecretSigner    `json:"signer,omitempty"`
	Bindings   []SecretBinding `json:"bindings"`
	LifetimeMS int64           `json:"lifetimeMs,omitempty"`
}

// String returns the source without the value, so that a request can be logged.
func (s SetSecret) String() string {
	return "secret from " + string(cmp.Or(s.Source, SecretStored))
}

// LogValue implements slog.LogValuer: it has no value.
func (s SetSecret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// SecretGrant lets a sandbox use a secret. The sandbox gets a placeholder in an environment
// variable, never the value.
type SecretGrant struct {
	Name string `json:"name"` // of the secret
	// Env is the variable; empty for the name in upper case, with "_" for "-" and ".".
	Env string `json:"env,omitempty"`
}

// SecretUse is the record of one request that a secret was used in, or of a placeholder where it
// may not be.
type SecretUse struct {
	Seq     int64     `json:"seq,omitempty"`
	At      time.Time `json:"at"`
	Secret  string    `json:"secret"` // empty for a placeholder that is none of the sandbox's
	Account string    `json:"account,omitempty"`
	Sandbox SandboxID `json:"sandbox"`
	Task    TaskID    `json:"task,omitempty"`
	// Refused is the reason if the request was refused; that is an alarm.
	Refused string `json:"refused,omitempty"`
	Scheme  string `json:"scheme"`
	Host    string `json:"host"`
	Port    int    `json:"port"`
	Method  string `json:"method"`
	Path    string `json:"path"`
	Status  int    `json:"status,omitempty"`
	// Binding is the number of the binding, from 1; 0 if there is none.
	Binding int `json:"binding,omitempty"`
	// Sent and Received are bytes of the bodies.
	Sent     int64 `json:"sent,omitempty"`
	Received int64 `json:"received,omitempty"`
	// Commands are the commands that were running in the sandbox.
	Commands []string `json:"commands,omitempty"`
	// Missed is set in a row that stands for uses that were not recorded: their number.
	Missed int `json:"missed,omitempty"`
}

// SecretUseFilter selects uses of secrets. A zero field does not filter.
type SecretUseFilter struct {
	Secret string
	// Refused selects alarms only.
	Refused bool
	// Since excludes uses before it.
	Since time.Time
}

// Bounds on secrets. Sizes are in bytes.
const (
	MaxSecrets        = 1000 // of an account
	MaxSecretName     = 63
	MaxSecretValue    = 64 << 10
	MaxSecretBindings = 32
	MaxSecretGrants   = 64
	// MaxSecretLifetime is the maximum of LifetimeMS, DefaultSecretLifetime its default.
	MaxSecretLifetime     = 24 * time.Hour
	DefaultSecretLifetime = 5 * time.Minute
	// MinSecretValue is the shortest value: a shorter one cannot be distinguished from other text
	// in an answer.
	MinSecretValue = 8
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

// WithDefaults returns the binding with its scheme, port and header names as they are compared.
func (b SecretBinding) WithDefaults() SecretBinding {
	if b.Scheme == "" {
		b.Scheme = "https"
	}
	if b.Port == 0 {
		b.Port = 443
		if b.Scheme == "http" {
			b.Port = 80
		}
	}
	b.Host = strings.ToLower(b.Host)
	return b
}
