package access

import (
	"context"

	"hortus.dev/api"
)

// DocumentService keeps the documents of accounts; "" is the operator's own.
type DocumentService interface {
	Put(ctx context.Context, account string, key api.KeyID, name string, req api.PutDocument) (api.StoredDocument, error)
	Get(ctx context.Context, account, repository, name string, version int) (api.StoredDocument, error)
	Versions(ctx context.Context, account, repository, name string) ([]api.StoredDocument, error)
	List(ctx context.Context, account, repository string) ([]api.StoredDocument, error)
	Remove(ctx context.Context, account, repository, name string) (api.StoredDocument, error)
	// Files fetches a repository with the credentials of the operator.
	Files(ctx context.Context, repository, ref string) ([]api.ContextFile, error)
}

// Documents guards documents. Everybody, an admin too, has those of the own account only. Only an admin lists files of
// repositories, as only an admin has tasks on them.
type Documents struct{ s DocumentService }

// NewDocuments guards documents.
func NewDocuments(s DocumentService) *Documents { return &Documents{s} }

// may returns who calls. No API key names a directory of the daemon's machine.
func (d *Documents) may(ctx context.Context, repository string) (api.Principal, error) {
	p, err := caller(ctx)
	if err == nil && repository != "" {
		err = checkRemote(p, repository)
	}
	return p, err
}

// Put stores a new version of a document of the caller's.
func (d *Documents) Put(ctx context.Context, name string, req api.PutDocument) (api.StoredDocument, error) {
	p, err := d.may(ctx, req.Repository)
	return ifAllowed(err, func() (api.StoredDocument, error) { return d.s.Put(ctx, p.Account, p.Key, name, req) })
}

// Get returns a version of a document of the caller's, 0 for the current one.
func (d *Documents) Get(ctx context.Context, repository, name string, version int) (api.StoredDocument, error) {
	p, err := d.may(ctx, repository)
	return ifAllowed(err, func() (api.StoredDocument, error) { return d.s.Get(ctx, p.Account, repository, name, version) })
}

// Versions lists the versions of a document of the caller's.
func (d *Documents) Versions(ctx context.Context, repository, name string) ([]api.StoredDocument, error) {
	p, err := d.may(ctx, repository)
	return ifAllowed(err, func() ([]api.StoredDocument, error) { return d.s.Versions(ctx, p.Account, repository, name) })
}

// List lists the caller's documents: those of the account and of a repository, or all for "".
func (d *Documents) List(ctx context.Context, repository string) ([]api.StoredDocument, error) {
	p, err := d.may(ctx, repository)
	return ifAllowed(err, func() ([]api.StoredDocument, error) { return d.s.List(ctx, p.Account, repository) })
}

// Remove removes a document of the caller's.
func (d *Documents) Remove(ctx context.Context, repository, name string) (api.StoredDocument, error) {
	p, err := d.may(ctx, repository)
	return ifAllowed(err, func() (api.StoredDocument, error) { return d.s.Remove(ctx, p.Account, repository, name) })
}

// Files lists the documents in a commit of a repository. The caller must be an admin.
func (d *Documents) Files(ctx context.Context, repository, ref string) ([]api.ContextFile, error) {
	p, err := d.may(ctx, repository)
	if err == nil && p.Role != api.RoleAdmin {
		err = denied("listing files of a repository")
	}
	return ifAllowed(err, func() ([]api.ContextFile, error) { return d.s.Files(ctx, repository, ref) })
}
