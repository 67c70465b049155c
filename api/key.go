package api

import (
	"context"
	"slices"
	"strings"
	"time"
)

// KeyID names an API key: "k" and 19 characters. It is no secret; the key itself
// is, and is known only to whom it was shown when it was made.
type KeyID string

// NewKeyID makes a fresh identifier.
func NewKeyID() KeyID { return KeyID(newID('k')) }

// Valid reports whether the identifier has the form that NewKeyID makes.
func (id KeyID) Valid() bool { return validID(string(id), 'k') }

// Role is what a caller may do.
type Role string

const (
	// RoleAdmin may do everything, to what belongs to any account: the
	// operator. Anyone who can open the daemon's socket has it.
	RoleAdmin Role = "admin"
	// RoleUser may use and see what belongs to the key's account, and nothing
	// else: for a user, what is another account's does not exist.
	RoleUser Role = "user"
)

// Ceilings bound what all sandboxes of a key may use together, and what one may
// ask for. Zero is no bound of the key's own; in a CreateKey it is the default.
type Ceilings struct {
	// Sandboxes that live at a time.
	Sandboxes int `json:"sandboxes,omitempty"`
	// MemoryBytes and CPUs of all live sandboxes together.
	MemoryBytes int64   `json:"memoryBytes,omitempty"`
	CPUs        float64 `json:"cpus,omitempty"`
	// TTLMS is the longest life that may be requested, in milliseconds.
	TTLMS int64 `json:"ttlMs,omitempty"`
	// Egress limits the policies of sandboxes: what it does not allow is denied, whatever a
	// policy allows. nil is no limit of the key's own.
	Egress *EgressPolicy `json:"egress,omitempty"`
	// Isolations are the backends that the key may use; empty is no limit of the key's own.
	Isolations []string `json:"isolations,omitempty"`
}

// Empty reports whether there is no ceiling.
func (c Ceilings) Empty() bool {
	return c.Sandboxes == 0 && c.MemoryBytes == 0 && c.CPUs == 0 && c.TTLMS == 0 && c.Egress == nil && len(c.Isolations) == 0
}

// KeyIsolation is what an API key says of the isolation of a sandbox.
type KeyIsolation struct {
	// Default is for requests that name none and that no other default is nearer to; empty for none.
	Default string
	// Allowed are the backends that the key may use; empty for all.
	Allowed []string
	// Untrusted is true for the key of a user, who may use only backends that isolate.
	Untrusted bool
}

// AutoIsolation is the isolation that leaves the choice to Hortus.
const AutoIsolation = "auto"

// Check refuses a backend that the key may not use. isolates says whether the backend is fit for untrusted code: what runs in another
// one has the rights of the daemon's user.
func (k KeyIsolation) Check(backend string, isolates bool) error {
	if len(k.Allowed) > 0 && !slices.Contains(k.Allowed, backend) {
		return Errorf(KindDenied, "this API key may not use the isolation %.64q, only %s", backend, strings.Join(k.Allowed, ", ")).
			WithHint("use --isolation %s; the operator can create a key without this limit", k.Allowed[0])
	}
	if k.Untrusted && !isolates {
		return Errorf(KindDenied, "a sandbox without isolation (%q) is allowed for the operator only: this API key is a user's", backend).
			WithHint("use the daemon's socket on its machine, or a key with the role %s", RoleAdmin)
	}
	return nil
}

// Key is what is known of an API key. The key itself is not kept, only its hash.
type Key struct {
	ID      KeyID  `json:"id"`
	Name    string `json:"name,omitempty"`
	Account string `json:"account"`
	Role    Role   `json:"role"`
	// Hint is the key's first characters, enough to tell it from others.
	Hint     string   `json:"hint"`
	Ceilings Ceilings `json:"ceilings,omitzero"`
	// Isolation is the default of requests with the key that name none; empty for none.
	Isolation string    `json:"isolation,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// ExpiresAt is when the key stops working by itself; zero for never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// RevokedAt is when the key was revoked; zero if it was not.
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	// Person is set for a key that a sign-in with OpenID Connect made. Nobody knows the key itself: it has the sessions of the person.
	Person *Person `json:"person,omitempty"`
}

// Person is somebody whom a provider of OpenID Connect knows.
type Person struct {
	// Issuer and Subject identify the person.
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	// Email was verified by the provider.
	Email string `json:"email"`
}

// CreateKey requests an API key.
type CreateKey struct {
	// Name is for people: at most 100 printable characters.
	Name string `json:"name,omitempty"`
	// Account owns what is made with the key: 1 to 63 lower-case letters, digits,
	// ".", "_" and "-", the first a letter or a digit. It needs no making.
	Account string `json:"account"`
	// Role is RoleUser when it is empty.
	Role Role `json:"role,omitempty"`
	// Ceilings are for a RoleUser alone. A zero field takes the default of
	// DefaultCeilings; NoCeiling in a field asks for none.
	Ceilings Ceilings `json:"ceilings,omitzero"`
	// Isolation is a backend, or "auto", for requests with the key that name none; empty for the default of the daemon.
	Isolation string `json:"isolation,omitempty"`
	// ExpiresInMS is the life of the key in milliseconds, from MinKeyLife to MaxKeyLife; 0 is a key that does not expire.
	ExpiresInMS int64 `json:"expiresInMs,omitempty"`
}

// The least and the greatest life of a key that expires.
const (
	MinKeyLife = time.Minute
	MaxKeyLife = 10 * 365 * 24 * time.Hour
)

// NoCeiling is the value of a ceiling that is not wanted, in a request.
const NoCeiling = -1

// DefaultCeilings are those of a user's key whose request names none: a hundred
// sandboxes of the default size.
func DefaultCeilings() Ceilings {
	l := DefaultLimits()
	return Ceilings{Sandboxes: 100, MemoryBytes: 100 * l.MemoryBytes, CPUs: 100 * l.CPUs, TTLMS: MaxTTL.Milliseconds()}
}

// CreatedKey is a key that was just made. Secret is the key itself, "e2b_" and 40
// hexadecimal digits; it is shown only once and cannot be had again.
type CreatedKey struct {
	Key
	Secret string `json:"secret"`
}

// Principal is who asks. The zero value is nobody and may do nothing.
type Principal struct {
	// Account owns what the caller makes; "" is the operator's own.
	Account  string   `json:"account,omitempty"`
	Key      KeyID    `json:"key,omitempty"`
	Role     Role     `json:"role"`
	Ceilings Ceilings `json:"ceilings,omitzero"`
	// Isolation is the default of the key.
	Isolation string `json:"isolation,omitempty"`
	// ExpiresAt is when the key expires; zero for never. Requests that the key began end then.
	ExpiresAt time.Time `json:"-"`
}

// Operator is who speaks over the daemon's own socket.
func Operator() Principal { return Principal{Role: RoleAdmin} }

// KeyIsolation returns what the key of the principal says of the isolation.
func (p Principal) KeyIsolation() KeyIsolation {
	return KeyIsolation{Default: p.Isolation, Allowed: p.Ceilings.Isolations, Untrusted: p.Role == RoleUser}
}

// May reports whether the principal may see and use what belongs to an account.
func (p Principal) May(account string) bool {
	return p.Role == RoleAdmin || p.Role == RoleUser && p.Account != "" && p.Account == account
}

type principalKey struct{}

// WithPrincipal says on whose behalf what hangs on the context is done.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf returns the principal of a context, or the zero Principal.
func PrincipalOf(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}
