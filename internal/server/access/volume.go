package access

import (
	"context"
	"io"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
)

// VolumeService keeps volumes; it does not know who calls.
type VolumeService interface {
	Create(ctx context.Context, account, name string) (api.Volume, error)
	Get(ctx context.Context, id api.VolumeID) (api.Volume, error)
	List(ctx context.Context, account string) ([]api.Volume, error)
	Remove(ctx context.Context, id api.VolumeID) error
	VolumeFiles
}

// VolumeFiles reads and writes the files of volumes.
type VolumeFiles interface {
	Stat(ctx context.Context, id api.VolumeID, path string) (api.VolumeEntry, error)
	Entries(ctx context.Context, id api.VolumeID, path string, depth int) ([]api.VolumeEntry, error)
	MakeDir(ctx context.Context, id api.VolumeID, path string, owner api.VolumeOwner, parents bool) (api.VolumeEntry, error)
	SetOwner(ctx context.Context, id api.VolumeID, path string, owner api.VolumeOwner) (api.VolumeEntry, error)
	Read(ctx context.Context, id api.VolumeID, path string) (io.ReadCloser, api.VolumeEntry, error)
	Write(ctx context.Context, id api.VolumeID, path string, owner api.VolumeOwner, replace bool, length int64, body io.Reader) (api.VolumeEntry, error)
	Delete(ctx context.Context, id api.VolumeID, path string) error
}

// Volumes guards volumes. Everybody, an admin too, has those of the own account only. Files are for
// clients that showed the volume's own token, which the server checks.
type Volumes struct {
	VolumeFiles
	v     VolumeService
	rates *quota.Rates
}

// NewVolumes guards a service and limits how often a key creates volumes.
func NewVolumes(v VolumeService, rates *quota.Rates) *Volumes { return &Volumes{v, v, rates} }

// Create creates an empty volume of the caller's account.
func (v *Volumes) Create(ctx context.Context, name string) (api.Volume, error) {
	p, err := caller(ctx)
	if err == nil {
		err = v.rates.Create(p, 1)
	}
	return ifAllowed(err, func() (api.Volume, error) { return v.v.Create(ctx, p.Account, name) })
}

// List returns the caller's volumes, the newest first.
func (v *Volumes) List(ctx context.Context) ([]api.Volume, error) {
	p, err := caller(ctx)
	return ifAllowed(err, func() ([]api.Volume, error) { return v.v.List(ctx, p.Account) })
}

// Get returns a volume of the caller's.
func (v *Volumes) Get(ctx context.Context, id api.VolumeID) (api.Volume, error) {
	p, err := caller(ctx)
	if err != nil {
		return api.Volume{}, err
	}
	row, err := v.v.Get(ctx, id)
	if err == nil && row.Account != p.Account {
		err = notFound("volume", string(id))
	}
	return ifAllowed(err, func() (api.Volume, error) { return row, nil })
}

// Remove removes a volume of the caller's.
func (v *Volumes) Remove(ctx context.Context, id api.VolumeID) error {
	_, err := v.Get(ctx, id)
	if err == nil {
		err = v.v.Remove(ctx, id)
	}
	return err
}

// Count counts a request for the files of a volume among those of its account; see quota.CountRequest.
func (v *Volumes) Count(ctx context.Context, id api.VolumeID) error {
	row, err := v.v.Get(ctx, id)
	if err == nil {
		err = quota.CountRequest(ctx, row.Account, "")
	}
	return err
}
