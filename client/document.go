package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"hortus.dev/api"
)

// DocumentService keeps documents for tasks: of the account, or of a repository for its address. The texts are untrusted.
type DocumentService struct{ service }

const documentsPath = "/v1/documents"

// Put stores a new version of a document. It fails with KindConflict if req.IfVersion is not the current version.
func (s *DocumentService) Put(ctx context.Context, name string, req api.PutDocument) (out api.StoredDocument, err error) {
	path, err := documentPath(name)
	if err != nil {
		return out, err
	}
	return out, s.client.call(ctx, http.MethodPut, path, req, &out)
}

// Get returns a version of a document, 0 for the current one.
func (s *DocumentService) Get(ctx context.Context, repository, name string, version int) (out api.StoredDocument, err error) {
	q := ofRepository(repository)
	if version != 0 {
		q.Set("version", strconv.Itoa(version))
	}
	path, err := documentPath(name)
	if err != nil {
		return out, err
	}
	return out, s.client.query(ctx, http.MethodGet, path, q, nil, &out)
}

// Versions lists the versions of a document that are kept, the newest first, without their texts.
func (s *DocumentService) Versions(ctx context.Context, repository, name string) (out []api.StoredDocument, err error) {
	path, err := documentPath(name)
	if err != nil {
		return nil, err
	}
	return out, s.client.query(ctx, http.MethodGet, path+"/versions", ofRepository(repository), nil, &out)
}

// List lists the current versions of documents without their texts: those of the account and of a repository, or all for "".
func (s *DocumentService) List(ctx context.Context, repository string) (out []api.StoredDocument, err error) {
	return out, s.client.query(ctx, http.MethodGet, documentsPath, ofRepository(repository), nil, &out)
}

// Remove removes a document with all its versions, and returns what was current.
func (s *DocumentService) Remove(ctx context.Context, repository, name string) (out api.StoredDocument, err error) {
	path, err := documentPath(name)
	if err != nil {
		return out, err
	}
	return out, s.client.query(ctx, http.MethodDelete, path, ofRepository(repository), nil, &out)
}

// Files fetches a repository and lists the files in .hortus/context of the commit that ref names, "" for its HEAD.
func (s *DocumentService) Files(ctx context.Context, repository, ref string) (out []api.ContextFile, err error) {
	q := ofRepository(repository)
	if ref != "" {
		q.Set("ref", ref)
	}
	return out, s.client.query(ctx, http.MethodGet, "/v1/context-files", q, nil, &out)
}

func ofRepository(address string) url.Values {
	q := url.Values{}
	if address != "" {
		q.Set("repository", address)
	}
	return q
}

// documentPath checks what becomes a part of a path.
func documentPath(name string) (string, error) {
	if !api.ValidDocumentName(name) {
		return "", api.Errorf(api.KindInvalid, "%.80q is not a valid name for a document", name).
			WithHint(`use 1 to 63 lower-case letters, digits, ".", "_" and "-", beginning with a letter or a digit`)
	}
	return documentsPath + "/" + name, nil
}
