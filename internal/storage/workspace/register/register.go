package register

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
)

// DefaultExpiry is the default of Config.Expiry. It leaves the owner of a lease four renewals.
const DefaultExpiry = 2 * time.Minute

// keptVersions is how many versions of a workspace are kept.
const keptVersions = 2

// Config configures a Register.
type Config struct {
	Blobs archive.Blobs
	// Host is the name of this host, for people.
	Host string
	// Expiry is how long a lease is not renewed until another host may take it (default DefaultExpiry).
	Expiry time.Duration
	Now    func() time.Time
}

// Register may be used from several goroutines.
type Register struct {
	cfg Config

	mu sync.Mutex
	// seen are the leases of other hosts that were wanted here.
	seen map[api.WorkspaceID]sighting
}

// New creates a Register.
func New(cfg Config) *Register {
	cfg.Expiry = cmp.Or(cfg.Expiry, DefaultExpiry)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if !hostForm.MatchString(cfg.Host) {
		cfg.Host = "unnamed-host"
	}
	return &Register{cfg: cfg, seen: map[api.WorkspaceID]sighting{}}
}

// Renewal is how often the owner of a lease renews it.
func (r *Register) Renewal() time.Duration { return r.cfg.Expiry / 4 }

// probe is the blob that Check creates.
const probe = "hortus-check-once"

// Check returns an error unless the archive creates a blob once only, which everything here depends on.
func (r *Register) Check(ctx context.Context) error {
	b := r.cfg.Blobs
	err := b.Remove(ctx, probe)
	for range 2 {
		if err == nil || api.KindOf(err) == api.KindExists {
			err = b.Create(ctx, probe, []byte("hortus creates this once\n"))
		}
	}
	if err == nil {
		return api.Errorf(api.KindUnsupported, "%s replaces what is created twice; hosts cannot share workspaces with it", b).
			WithHint("use a directory, or an object store that supports conditional writes (If-None-Match)")
	}
	if api.KindOf(err) == api.KindExists {
		return nil
	}
	return api.Errorf(api.KindOf(err), "the archive of layers cannot be used for shared workspaces: %w", err).WithHint("%s", api.HintOf(err))
}

// Add adds a workspace under its name, or returns the one that has it.
func (r *Register) Add(ctx context.Context, e Entry) (_ Entry, added bool, err error) {
	e.Host, e.CreatedAt = r.cfg.Host, r.cfg.Now().UTC()
	if err := e.check(); err != nil {
		return Entry{}, false, api.Errorf(api.KindInvalid, "workspace %.64q: %w", e.Name, err)
	}
	err = r.create(ctx, nameBlob(e.Account, e.Name), e)
	if api.KindOf(err) == api.KindExists {
		was, err := r.Find(ctx, e.Account, e.Name)
		return was, was.Workspace == e.Workspace, err
	}
	if err != nil {
		return Entry{}, false, err
	}
	return e, true, nil
}

// Find returns the workspace that an account has under a name: KindNotFound if it has none.
func (r *Register) Find(ctx context.Context, account, name string) (e Entry, err error) {
	blob := nameBlob(account, name)
	b, err := r.read(ctx, blob)
	if api.KindOf(err) == api.KindNotFound {
		return e, api.Errorf(api.KindNotFound, "no host shares a workspace %.64q", name)
	}
	if err != nil {
		return e, err
	}
	if err = parse(b, &e); err == nil && (e.Account != account || e.Name != name) {
		err = errors.New("it is of another name")
	}
	if err != nil {
		return Entry{}, r.damaged(blob, "the name is free then, and its workspace is not found any more", err)
	}
	return e, nil
}

// Remove removes all records of a workspace. Its name is removed first.
func (r *Register) Remove(ctx context.Context, e Entry) error {
	all, err := r.list(ctx, e.Workspace)
	if err == nil {
		err = r.cfg.Blobs.Remove(ctx, nameBlob(e.Account, e.Name))
	}
	for _, n := range all.versions {
		if err == nil {
			err = r.cfg.Blobs.Remove(ctx, versionBlob(e.Workspace, n))
		}
	}
	slices.Sort(all.leases) // the one that counts is the last
	for _, n := range all.leases {
		if err == nil {
			err = r.cfg.Blobs.Remove(ctx, leaseBlob(e.Workspace, n))
		}
	}
	return err
}

// Last returns the last version of a workspace; one without a number if there is none.
func (r *Register) Last(ctx context.Context, id api.WorkspaceID) (Version, error) {
	all, err := r.list(ctx, id)
	if err != nil || len(all.versions) == 0 {
		return Version{}, err
	}
	return r.version(ctx, id, slices.Max(all.versions))
}

func (r *Register) version(ctx context.Context, id api.WorkspaceID, n int) (v Version, err error) {
	blob := versionBlob(id, n)
	b, err := r.read(ctx, blob)
	if err != nil {
		return v, err
	}
	if err = parse(b, &v); err == nil && v.Number != n {
		err = errors.New("it is of another version")
	}
	if err != nil {
		return Version{}, r.damaged(blob, "the version before is the last one then", err)
	}
	return v, nil
}

// Append stores a version under a lease. All of its layers are in the archive. What is older than the version before is removed.
//
// Errors: KindConflict if another host has stored a version of that number.
func (r *Register) Append(ctx context.Context, l Lease, v Version) (Version, error) {
	v.Lease, v.Copy, v.Host, v.StoredAt = l.rec.Number, l.rec.Copy, r.cfg.Host, r.cfg.Now().UTC()
	if err := v.check(); err != nil {
		return v, api.Errorf(api.KindInvalid, "version %d: %w", v.Number, err)
	}
	err := r.create(ctx, versionBlob(l.id, v.Number), v)
	if api.KindOf(err) == api.KindExists {
		was, rerr := r.version(ctx, l.id, v.Number)
		if rerr != nil {
			return v, rerr
		}
		// An earlier request may have stored it, without an answer.
		if was.Copy != v.Copy || !slices.Equal(was.Layers, v.Layers) {
			return was, api.Errorf(api.KindConflict, "host %s has stored version %d meanwhile", was.Host, was.Number)
		}
		v, err = was, nil
	}
	if err != nil {
		return v, err
	}
	// What is left is removed with the next version.
	if all, err := r.list(ctx, l.id); err == nil {
		for _, n := range all.versions {
			if n <= v.Number-keptVersions {
				_ = r.cfg.Blobs.Remove(ctx, versionBlob(l.id, n))
			}
		}
	}
	return v, nil
}

// create creates a record.
func (r *Register) create(ctx context.Context, blob string, record any) error {
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return r.cfg.Blobs.Create(ctx, blob, append(b, '\n'))
}

// replace replaces a record.
func (r *Register) replace(ctx context.Context, blob string, record any) error {
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return r.cfg.Blobs.Put(ctx, blob, bytes.NewReader(append(b, '\n')))
}
