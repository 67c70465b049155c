package key

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
)

// Rows is where keys are kept, by their hashes.
type Rows interface {
	InsertKey(ctx context.Context, k api.Key, hash string) error
	// RevokeKey returns the key; one that was revoked before keeps its time.
	RevokeKey(ctx context.Context, id api.KeyID, at time.Time) (api.Key, error)
	// KeyByHash finds a key, revoked or not; KindNotFound for none.
	KeyByHash(ctx context.Context, hash string) (api.Key, error)
	// Key returns a key by its ID, revoked or not; KindNotFound for none.
	Key(ctx context.Context, id api.KeyID) (api.Key, error)
	// KeyPage returns the newest first: those that work, or all. next is where the next
	// page begins, "" after the last.
	KeyPage(ctx context.Context, all bool, p api.PageRequest) (rows []api.Key, next string, err error)
	FindKey(ctx context.Context, prefix string) (api.KeyID, error)
}

// Config is what keys are kept with.
type Config struct {
	Rows Rows
	// CheckEgress validates the egress ceiling of a key. Without it only a ceiling that
	// denies everything is accepted.
	CheckEgress func(ctx context.Context, p api.EgressPolicy) error
	// CheckIsolation refuses what names no backend. Without it no key has an isolation.
	CheckIsolation func(name string) error
	Now            func() time.Time // nil means time.Now
}

// Keys are the API keys of a data directory.
type Keys struct{ cfg Config }

// New makes the keys of a store.
func New(cfg Config) *Keys {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Keys{cfg}
}

// Create makes a key and stores its hash. The secret is in the answer and nowhere
// else. If the caller's key expires, the new one expires at the same time unless it is to
// expire earlier. KindInvalid for a request that makes no sense, KindDenied for a key that
// would outlive the caller's.
func (k *Keys) Create(ctx context.Context, req api.CreateKey) (api.CreatedKey, error) {
	req.Role = cmp.Or(req.Role, api.RoleUser)
	return k.create(ctx, req, nil)
}

func (k *Keys) create(ctx context.Context, req api.CreateKey, person *api.Person) (api.CreatedKey, error) {
	if err := Check(req); err != nil {
		return api.CreatedKey{}, err
	}
	if err := k.checkEgress(ctx, req.Ceilings.Egress); err != nil {
		return api.CreatedKey{}, err
	}
	if err := k.checkIsolation(req); err != nil {
		return api.CreatedKey{}, err
	}
	if req.Role == api.RoleUser {
		req.Ceilings = withDefaults(req.Ceilings)
	}
	return k.insert(ctx, req, person)
}

// insert stores a key that was checked.
func (k *Keys) insert(ctx context.Context, req api.CreateKey, person *api.Person) (api.CreatedKey, error) {
	secret := generate()
	out := api.CreatedKey{Secret: secret, Key: api.Key{
		ID: api.NewKeyID(), Name: req.Name, Account: req.Account, Role: req.Role,
		Hint: secret[:hintLen], Ceilings: req.Ceilings, Isolation: req.Isolation, CreatedAt: k.cfg.Now().UTC().Truncate(time.Microsecond), Person: person,
	}}
	if req.ExpiresInMS > 0 {
		out.ExpiresAt = out.CreatedAt.Add(time.Duration(req.ExpiresInMS) * time.Millisecond)
	}
	if end := api.PrincipalOf(ctx).ExpiresAt; !end.IsZero() {
		if out.ExpiresAt.After(end) {
			return api.CreatedKey{}, api.Errorf(api.KindDenied, "the key would expire at %s, after the one that creates it", out.ExpiresAt.Format(time.RFC3339)).
				WithHint("use a life that ends until %s, or leave it out to end then", end.Format(time.RFC3339))
		}
		out.ExpiresAt = cmp.Or(out.ExpiresAt, end.UTC())
	}
	if err := k.cfg.Rows.InsertKey(ctx, out.Key, hash(secret)); err != nil {
		return api.CreatedKey{}, err
	}
	return out, nil
}

// First makes a key if there never was one but those of Local and Personal; made reports whether. Where all keys were
// revoked none is made: somebody wanted that.
func (k *Keys) First(ctx context.Context, req api.CreateKey) (_ api.CreatedKey, made bool, err error) {
	if none, err := k.None(ctx); err != nil || !none {
		return api.CreatedKey{}, false, err
	}
	out, err := k.Create(ctx, req)
	return out, err == nil, err
}

// None reports whether there never was a key but those of Local and Personal.
func (k *Keys) None(ctx context.Context) (bool, error) {
	all, _, err := k.cfg.Rows.KeyPage(ctx, true, api.PageRequest{})
	return err == nil && !slices.ContainsFunc(all, func(k api.Key) bool { return k.Name != localName && k.Person == nil }), err
}

// Verify finds the key that somebody presents. The error for an unknown key and for a revoked one is the same, of KindUnauthenticated.
// That for an expired key names it: only who has the key learns that.
func (k *Keys) Verify(ctx context.Context, presented string) (api.Key, error) {
	if !wellFormed(presented) {
		return api.Key{}, unknown()
	}
	return k.valid(k.cfg.Rows.KeyByHash(ctx, hash(presented)))
}

// Get returns a key that works, by its ID, for those who were shown the key before. The error is that of Verify.
func (k *Keys) Get(ctx context.Context, id api.KeyID) (api.Key, error) {
	return k.valid(k.cfg.Rows.Key(ctx, id))
}

// valid refuses a key that is not there, was revoked, or has expired.
func (k *Keys) valid(found api.Key, err error) (api.Key, error) {
	if api.KindOf(err) == api.KindNotFound {
		return api.Key{}, unknown()
	}
	if err != nil {
		return api.Key{}, err
	}
	if !found.RevokedAt.IsZero() {
		return api.Key{}, unknown()
	}
	if !found.ExpiresAt.IsZero() && !k.cfg.Now().Before(found.ExpiresAt) {
		return api.Key{}, api.Errorf(api.KindUnauthenticated, "API key %s of account %s expired at %s", found.ID, found.Account, found.ExpiresAt.Format(time.RFC3339)).
			WithHint("the operator creates another one: hortus key create --account %s --expires 90d", found.Account)
	}
	return found, nil
}

func unknown() error {
	return api.Errorf(api.KindUnauthenticated, "unknown API key").
		WithHint("a key consists of e2b_ and 40 hexadecimal digits; the operator creates keys with hortus key create --account NAME")
}

// localName is the name of the key of browsers that hortus ui signs in.
const localName = "hortus ui"

// Local returns the key of the browsers of this machine, and creates it if there is none that works. Nobody knows its secret. It is the operator's
// own: it has what the command line on the machine has, and is of no account.
func (k *Keys) Local(ctx context.Context) (api.Key, error) {
	for row, err := range k.working(ctx) {
		if err != nil || row.Name == localName && row.Account == "" && row.Role == api.RoleAdmin && row.Person == nil {
			return row, err
		}
	}
	made, err := k.insert(ctx, api.CreateKey{Name: localName, Role: api.RoleAdmin}, nil)
	return made.Key, err
}

// working are the keys that work, the newest first.
func (k *Keys) working(ctx context.Context) iter.Seq2[api.Key, error] {
	return func(yield func(api.Key, error) bool) {
		for p := (api.PageRequest{Limit: api.MaxPage}); ; {
			rows, next, err := k.cfg.Rows.KeyPage(ctx, false, p)
			if err != nil {
				yield(api.Key{}, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if p.Cursor = next; next == "" {
				return
			}
		}
	}
}

// Page returns one page of the keys that work, or of all that ever were, the newest first.
func (k *Keys) Page(ctx context.Context, all bool, p api.PageRequest) ([]api.Key, string, error) {
	return k.cfg.Rows.KeyPage(ctx, all, p)
}

// Find returns the key that a unique beginning of an id stands for.
func (k *Keys) Find(ctx context.Context, prefix string) (api.KeyID, error) {
	return k.cfg.Rows.FindKey(ctx, prefix)
}

// Revoke ends a key: from the next request on it is not known. It is idempotent.
func (k *Keys) Revoke(ctx context.Context, id api.KeyID) (api.Key, error) {
	return k.cfg.Rows.RevokeKey(ctx, id, k.cfg.Now().UTC().Truncate(time.Microsecond))
}

const (
	maxName    = 100
	maxAccount = 63
	// maxCeiling is above what any host has.
	maxCeiling = 1 << 50
)

// Check validates a request, but for its egress ceiling.
func Check(req api.CreateKey) error {
	if req.Role != api.RoleUser && req.Role != api.RoleAdmin {
		return api.Errorf(api.KindInvalid, "unknown role %.40q", req.Role).WithHint("use %s or %s", api.RoleUser, api.RoleAdmin)
	}
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	a := req.Account
	if a == "" || len(a) > maxAccount || !strings.ContainsRune(letters, rune(a[0])) || strings.Trim(a, letters+"._-") != "" {
		return api.Errorf(api.KindInvalid, "%.80q is not a valid account name", a).
			WithHint("use 1 to %d lower-case letters, digits, \".\", \"_\" and \"-\", beginning with a letter or a digit", maxAccount)
	}
	if n := req.Name; !utf8.ValidString(n) || utf8.RuneCountInString(n) > maxName ||
		strings.ContainsFunc(n, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return api.Errorf(api.KindInvalid, "%.80q is not a valid key name", n).WithHint("use at most %d printable characters", maxName)
	}
	c := req.Ceilings
	switch {
	case req.Role == api.RoleAdmin && !c.Empty():
		return api.Errorf(api.KindInvalid, "an admin key cannot have ceilings").WithHint("create a key for a user: role %q", api.RoleUser)
	case req.ExpiresInMS != 0 && (req.ExpiresInMS < api.MinKeyLife.Milliseconds() || req.ExpiresInMS > api.MaxKeyLife.Milliseconds()):
		return api.Errorf(api.KindInvalid, "a life of %s for a key is out of range", time.Duration(min(max(req.ExpiresInMS, -1), 1<<43))*time.Millisecond).WithHint("use a minute to 3650 days, or 0 for a key that does not expire")
	case c.Sandboxes < api.NoCeiling || c.Sandboxes > 1<<30:
		return api.Errorf(api.KindInvalid, "a ceiling of %d sandboxes is out of range", c.Sandboxes)
	case c.MemoryBytes < 0 && c.MemoryBytes != api.NoCeiling || c.MemoryBytes > maxCeiling:
		return api.Errorf(api.KindInvalid, "a ceiling of %d bytes of memory is out of range", c.MemoryBytes)
	case math.IsNaN(c.CPUs) || c.CPUs < 0 && c.CPUs != api.NoCeiling || c.CPUs > 1<<20:
		return api.Errorf(api.KindInvalid, "a ceiling of %v processors is out of range", c.CPUs)
	case c.TTLMS < api.NoCeiling || c.TTLMS > api.MaxTTL.Milliseconds():
		return api.Errorf(api.KindInvalid, "a ceiling of %d ms for the time to live is out of range: use 0 to %d", c.TTLMS, api.MaxTTL.Milliseconds())
	}
	return nil
}

// checkEgress validates an egress ceiling; nil is none.
func (k *Keys) checkEgress(ctx context.Context, c *api.EgressPolicy) error {
	if c == nil {
		return nil
	}
	if err := c.CheckBounds(); err != nil {
		return err
	}
	if c.Ask {
		return api.Errorf(api.KindInvalid, "an egress ceiling cannot ask")
	}
	if k.cfg.CheckEgress != nil {
		return k.cfg.CheckEgress(ctx, *c)
	}
	if c.Opens() {
		return api.Errorf(api.KindUnsupported, "this daemon does not serve outgoing connections of sandboxes (capability %s)", api.CapEgress)
	}
	return nil
}

// checkIsolation refuses an isolation that no backend has, and a default that the ceiling of the key excludes.
func (k *Keys) checkIsolation(req api.CreateKey) error {
	allowed := req.Ceilings.Isolations
	for i, name := range allowed {
		if name == "" || name == api.AutoIsolation || slices.Contains(allowed[:i], name) {
			return api.Errorf(api.KindInvalid, "isolation ceiling: %.64q is no backend, or is there twice", name).WithHint("list the backends: hortus doctor")
		}
	}
	for _, name := range append([]string{req.Isolation}, allowed...) {
		if name == "" || name == api.AutoIsolation {
			continue
		}
		if k.cfg.CheckIsolation == nil {
			return api.Errorf(api.KindUnsupported, "this daemon has no backends that a key could name")
		}
		if err := k.cfg.CheckIsolation(name); err != nil {
			return err
		}
	}
	if d := req.Isolation; d != "" && d != api.AutoIsolation && len(allowed) > 0 && !slices.Contains(allowed, d) {
		return api.Errorf(api.KindInvalid, "the default isolation %s of the key is not one that the key may use: %s", d, strings.Join(allowed, ", ")).
			WithHint("use one of them as the default")
	}
	return nil
}

// withDefaults returns the ceilings of a key: 0 takes the default, NoCeiling becomes 0.
func withDefaults(c api.Ceilings) api.Ceilings {
	d := api.DefaultCeilings()
	return api.Ceilings{
		Sandboxes:   ceiling(c.Sandboxes, d.Sandboxes),
		MemoryBytes: ceiling(c.MemoryBytes, d.MemoryBytes),
		CPUs:        ceiling(c.CPUs, d.CPUs),
		TTLMS:       ceiling(c.TTLMS, d.TTLMS),
		Egress:      c.Egress,
		Isolations:  c.Isolations,
	}
}

func ceiling[N int | int64 | float64](asked, byDefault N) N {
	switch asked {
	case 0:
		return byDefault
	case api.NoCeiling:
		return 0
	}
	return asked
}

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
