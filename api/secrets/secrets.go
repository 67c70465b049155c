package secrets

import (
	"cmp"
	"log/slog"
	"strings"
	"time"

	"hortus.dev/api"
)

// Source is where the value of a secret is from.
type Source string

const (
	// Stored is a value that the daemon keeps, encrypted.
	Stored Source = "value"
	// Variable is an environment variable of the daemon, read at each use.
	Variable Source = "env"
	// File is a file of the daemon's machine, read at each use.
	File Source = "file"
	// Command is the output of a command that the daemon runs. It is kept in memory
	// for the secret's lifetime.
	Command Source = "command"
)

// PlaceKind is a part of an HTTP request.
type PlaceKind string

const (
	InHeader PlaceKind = "header" // anywhere in the value of a header
	InQuery  PlaceKind = "query"  // the whole value of a parameter
	InBasic  PlaceKind = "basic"  // the whole user or the whole password of basic authentication
)

// Place is where in a request a placeholder is replaced.
type Place struct {
	Kind PlaceKind `json:"kind"`
	// Name is that of the header or the parameter; empty for basic authentication.
	Name string `json:"name,omitempty"`
}

// Signer is what is sent in place of a placeholder.
type Signer string

const (
	// Plain sends the value.
	Plain Signer = ""
	// SigV4 signs the request anew with AWS Signature Version 4. The value is a JSON
	// object with accessKeyId, secretAccessKey and, if there is one, sessionToken. A program
	// in the sandbox signs with the placeholder as its access key ID.
	SigV4 Signer = "aws-sigv4"
	// OAuth sends an access token, which the daemon fetches with a refresh token. The
	// value is a JSON object with tokenUrl, refreshToken, clientId and, if there is one,
	// clientSecret and scope.
	OAuth Signer = "oauth"
)

// Git restricts a binding to the smart HTTP protocol of git. What it does not state is
// refused.
type Git struct {
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

// Binding is a kind of request in which a secret may be used. A request has at most one
// placeholder, and must match exactly one binding of its secret.
type Binding struct {
	// Scheme is "https" (the default) or "http".
	Scheme string `json:"scheme,omitempty"`
	// Host is a name. Addresses and wildcards are not possible.
	Host string `json:"host"`
	// Port is 443 by default, or 80 for http.
	Port int `json:"port,omitempty"`
	// Methods and Paths restrict the binding, as in api.EgressRule; empty is any.
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	In      Place    `json:"in"`
	Git     *Git     `json:"git,omitempty"`
	// Model is the API of models that the server speaks, if it is one: budgets of tokens and of
	// money are counted from its answers.
	Model Model `json:"model,omitempty"`
}

// Secret describes a secret. No answer ever has its value.
type Secret struct {
	// Name is unique among the account's secrets.
	Name    string `json:"name"`
	Account string `json:"account,omitempty"`
	Source  Source `json:"source"`
	// From is the variable or the path; empty for a stored value. Command are the arguments
	// of the command.
	From     string    `json:"from,omitempty"`
	Command  []string  `json:"command,omitempty"`
	Signer   Signer    `json:"signer,omitempty"`
	Bindings []Binding `json:"bindings"`
	// LifetimeMS is how long the output of a command is used, in milliseconds.
	LifetimeMS int64 `json:"lifetimeMs,omitempty"`
	// ForHeaders means that header rules of sandboxes may name it, for any host. It has no
	// bindings then.
	ForHeaders bool `json:"forHeaders,omitempty"`
	// ID stays the same when the secret is replaced. Version is how many times it was set.
	ID      string `json:"id,omitempty"`
	Version int64  `json:"version,omitempty"`
	// Metadata is kept and shown, never read by Hortus.
	Metadata  map[string]string `json:"metadata,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	UpdatedAt time.Time         `json:"updatedAt"`
	// UsedAt is the time of the last use, Uses the number of requests that it was used in.
	UsedAt *time.Time `json:"usedAt,omitempty"`
	Uses   int64      `json:"uses,omitempty"`
	// Budgets limit what requests may use. Spent is what they used; a list does not have it.
	Budgets []Budget `json:"budgets,omitempty"`
	Spent   *Spent   `json:"spent,omitempty"`
}

// Set creates or replaces a secret. Its name is in the path of the request.
type Set struct {
	// ForHeaders lets header rules of sandboxes name the secret, which has no bindings then.
	// Anyone who may create sandboxes of the account can have it sent to any host.
	ForHeaders bool              `json:"forHeaders,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	// Version is the version that the request makes: 1 creates a secret, and 3 replaces version
	// 2. Another state of the secret is KindConflict, or KindExists for 1. 0 creates or replaces.
	Version int64 `json:"version,omitempty"`

	Source Source `json:"source,omitempty"` // Stored by default
	// Value is the value of a stored secret.
	Value      string    `json:"value,omitempty"`
	From       string    `json:"from,omitempty"`
	Command    []string  `json:"command,omitempty"`
	Signer     Signer    `json:"signer,omitempty"`
	Bindings   []Binding `json:"bindings"`
	LifetimeMS int64     `json:"lifetimeMs,omitempty"`
	Budgets    []Budget  `json:"budgets,omitempty"`
	// ResetBudget forgets what was used. Without it, a secret that is set anew keeps that.
	ResetBudget bool `json:"resetBudget,omitempty"`
}

// String returns the source without the value, so that a request can be logged.
func (s Set) String() string {
	return "secret from " + string(cmp.Or(s.Source, Stored))
}

// LogValue implements slog.LogValuer: it has no value.
func (s Set) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Use is the record of one request that a secret was used in, or of a placeholder where it
// may not be.
type Use struct {
	Seq     int64         `json:"seq,omitempty"`
	At      time.Time     `json:"at"`
	Secret  string        `json:"secret"` // empty for a placeholder that is none of the sandbox's
	Account string        `json:"account,omitempty"`
	Sandbox api.SandboxID `json:"sandbox"` // empty for a use by the daemon itself
	Task    api.TaskID    `json:"task,omitempty"`
	// Purpose is what the daemon itself used the secret for: "model", "git" or "forge"; empty for
	// a request of a sandbox. For is the account that it was for; empty for the operator. There is
	// a row for each request, with its address and without what became of it.
	Purpose string `json:"purpose,omitempty"`
	For     string `json:"for,omitempty"`
	// Refused is the reason if the request was refused. That is an alarm unless it was a budget.
	Refused string `json:"refused,omitempty"`
	// Budget is the budget that refused the request, such as "5usd/task".
	Budget string `json:"budget,omitempty"`
	// Usage is what a request to a model used, if the secret has budgets.
	Usage  *Usage `json:"usage,omitempty"`
	Scheme string `json:"scheme"`
	Host   string `json:"host"`
	Port   int    `json:"port"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Status int    `json:"status,omitempty"`
	// Binding is the number of the binding, from 1; 0 if there is none.
	Binding int `json:"binding,omitempty"`
	// Header is the header in which a rule of the sandbox sent the secret; empty for a binding.
	Header string `json:"header,omitempty"`
	// Broken is set in a row that stands for an answer that the server broke off; the use itself has
	// a row of its own. If Refused is set too, it is an alarm about many of them.
	Broken bool `json:"broken,omitempty"`
	// Sent and Received are bytes of the bodies.
	Sent     int64 `json:"sent,omitempty"`
	Received int64 `json:"received,omitempty"`
	// Commands are the commands that were running in the sandbox.
	Commands []string `json:"commands,omitempty"`
	// Missed is set in a row that stands for uses that were not recorded: their number.
	Missed int `json:"missed,omitempty"`
}

// UseFilter selects uses of secrets. A zero field does not filter.
type UseFilter struct {
	Secret string
	// Refused selects requests that were refused.
	Refused bool
	// Since excludes uses before it.
	Since time.Time
}

// Bounds on secrets. Sizes are in bytes.
const (
	MaxSecrets  = 1000 // of an account
	MaxValue    = 64 << 10
	MaxBindings = 32
	// MaxLifetime is the maximum of LifetimeMS, DefaultLifetime its default.
	MaxLifetime     = 24 * time.Hour
	DefaultLifetime = 5 * time.Minute
	// MinValue is the shortest value: a shorter one cannot be distinguished from other text
	// in an answer.
	MinValue = 8
)

// WithDefaults returns the binding with its scheme, port and header names as they are compared.
func (b Binding) WithDefaults() Binding {
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
