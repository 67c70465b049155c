package access

import (
	"context"
	"slices"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// Daemon is the daemon itself, and its keeping.
type Daemon interface {
	Info(ctx context.Context) (admin.DaemonInfo, error)
	Ready(ctx context.Context) error
	Doctor(ctx context.Context) (admin.Doctor, error)
	Stop(ctx context.Context, force bool) error
	StopKeeping(ctx context.Context, force bool) error
	Configure(ctx context.Context, want admin.DaemonSettings) (admin.DaemonSettings, error)
	Usage(ctx context.Context) (admin.DiskUsage, error)
	// AccountUsage returns what one account stores.
	AccountUsage(ctx context.Context, account string) ([]admin.AccountUsage, error)
	Collect(ctx context.Context, req admin.CollectRequest) (admin.Collected, error)
}

// System guards the daemon.
type System struct {
	d         Daemon
	sandboxes *Sandboxes
}

// NewSystem guards a daemon.
func NewSystem(d Daemon, sandboxes *Sandboxes) *System { return &System{d, sandboxes} }

// Info returns a user the version, and of what lives only what is the user's own.
func (s *System) Info(ctx context.Context) (admin.DaemonInfo, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.DaemonInfo{}, err
	}
	info, err := s.d.Info(ctx)
	if err != nil || p.Role == api.RoleAdmin {
		return info, err
	}
	own, err := s.sandboxes.List(ctx)
	if err != nil {
		return admin.DaemonInfo{}, err
	}
	return admin.DaemonInfo{Version: info.Version, Sandboxes: len(own)}, nil
}

// Ready returns what keeps the daemon from serving at full speed. It is the one thing
// that anybody may ask: load balancers have no key.
func (s *System) Ready(ctx context.Context) error { return s.d.Ready(ctx) }

// Doctor returns what the host can do; a user not where things are on it.
func (s *System) Doctor(ctx context.Context) (admin.Doctor, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.Doctor{}, err
	}
	d, err := s.d.Doctor(ctx)
	if p.Role != api.RoleAdmin {
		d.DataDir, d.Store, d.User, d.LayerArchive, d.Forges = "", "", "", nil, nil
		d.Template.Toolchains = slices.Clone(d.Template.Toolchains)
		for i := range d.Template.Toolchains {
			d.Template.Toolchains[i].Path = ""
		}
	}
	return d, err
}

// Stop ends the daemon.
func (s *System) Stop(ctx context.Context, force bool) error {
	if err := administrator(ctx, "stopping the daemon"); err != nil {
		return err
	}
	return s.d.Stop(ctx, force)
}

// StopKeeping ends the daemon and leaves sandboxes to the next one.
func (s *System) StopKeeping(ctx context.Context, force bool) error {
	if err := administrator(ctx, "stopping the daemon"); err != nil {
		return err
	}
	return s.d.StopKeeping(ctx, force)
}

// Configure changes the daemon's settings.
func (s *System) Configure(ctx context.Context, want admin.DaemonSettings) (admin.DaemonSettings, error) {
	return ifAllowed(administrator(ctx, "changing the daemon's settings"), func() (admin.DaemonSettings, error) { return s.d.Configure(ctx, want) })
}

// Usage returns an admin what the data directory holds, and a user what the user's account stores.
func (s *System) Usage(ctx context.Context) (admin.DiskUsage, error) {
	p, err := caller(ctx)
	if err != nil {
		return admin.DiskUsage{}, err
	}
	if p.Role == api.RoleAdmin {
		return s.d.Usage(ctx)
	}
	own, err := s.d.AccountUsage(ctx, p.Account)
	return admin.DiskUsage{Parts: []admin.DiskPart{}, Accounts: own}, err
}

// Collect removes what nothing refers to.
func (s *System) Collect(ctx context.Context, req admin.CollectRequest) (admin.Collected, error) {
	return ifAllowed(administrator(ctx, "removing files from the data directory"), func() (admin.Collected, error) { return s.d.Collect(ctx, req) })
}

// KeyRing creates and revokes keys.
type KeyRing interface {
	Create(ctx context.Context, req api.CreateKey) (api.CreatedKey, error)
	Page(ctx context.Context, all bool, p api.PageRequest) (rows []api.Key, next string, err error)
	Find(ctx context.Context, prefix string) (api.KeyID, error)
	Revoke(ctx context.Context, id api.KeyID) (api.Key, error)
}

// KeyAdmin guards the keys, which only admins may use.
type KeyAdmin struct{ k KeyRing }

// NewKeyAdmin guards keys.
func NewKeyAdmin(k KeyRing) *KeyAdmin { return &KeyAdmin{k} }

const keysWhat = "creating, listing or revoking API keys"

// CreateKey makes a key.
func (k *KeyAdmin) CreateKey(ctx context.Context, req api.CreateKey) (api.CreatedKey, error) {
	return ifAllowed(administrator(ctx, keysWhat), func() (api.CreatedKey, error) { return k.k.Create(ctx, req) })
}

// KeyPage returns one page of the keys.
func (k *KeyAdmin) KeyPage(ctx context.Context, all bool, p api.PageRequest) ([]api.Key, string, error) {
	if err := administrator(ctx, keysWhat); err != nil {
		return nil, "", err
	}
	return k.k.Page(ctx, all, p)
}

// FindKey finds a key by a beginning of its id.
func (k *KeyAdmin) FindKey(ctx context.Context, prefix string) (api.KeyID, error) {
	return ifAllowed(administrator(ctx, keysWhat), func() (api.KeyID, error) { return k.k.Find(ctx, prefix) })
}

// RevokeKey ends a key.
func (k *KeyAdmin) RevokeKey(ctx context.Context, id api.KeyID) (api.Key, error) {
	return ifAllowed(administrator(ctx, keysWhat), func() (api.Key, error) { return k.k.Revoke(ctx, id) })
}
