package http

import (
	"context"
	"net/http"
	"strconv"

	"hortus.dev/api"
)

// Documents is what the server asks of stored documents and of those in repositories. Repository "" is the account itself,
// and in List everything.
type Documents interface {
	Put(ctx context.Context, name string, req api.PutDocument) (api.StoredDocument, error)
	// Get returns a version, 0 for the current one.
	Get(ctx context.Context, repository, name string, version int) (api.StoredDocument, error)
	Versions(ctx context.Context, repository, name string) ([]api.StoredDocument, error)
	List(ctx context.Context, repository string) ([]api.StoredDocument, error)
	Remove(ctx context.Context, repository, name string) (api.StoredDocument, error)
	Files(ctx context.Context, repository, ref string) ([]api.ContextFile, error)
}

func (d documents) documentRoutes() []Route {
	repository := Param{Name: "repository", Doc: "Address of the repository that the document belongs to (default: none, the document is of the account).", Type: ""}
	name := func(r *http.Request) (string, error) { return r.PathValue("name"), nil }
	of := func(r *http.Request) (repository, name string) {
		return r.URL.Query().Get("repository"), r.PathValue("name")
	}
	return []Route{{
		// No Creates: a repetition is refused by ifVersion.
		Method: "PUT", Pattern: "/v1/documents/{name}", Name: "putDocument", Role: api.RoleUser,
		Doc: "Store a new version of a document, which tasks can name. With ifVersion it is stored only if that is the current version.",
		In:  api.PutDocument{}, Out: api.StoredDocument{},
		Handler: change(http.StatusOK, decode, d.Documents, name, Documents.Put),
	}, {
		Method: "GET", Pattern: "/v1/documents", Name: "documents", Role: api.RoleUser,
		Doc:    "List the current versions of the account's documents, without their texts.",
		Out:    []api.StoredDocument{},
		Params: []Param{{Name: "repository", Doc: "Only the documents of the account and of the repository with this address (default: all).", Type: ""}},
		Handler: give(func(r *http.Request) ([]api.StoredDocument, error) {
			return listed(d.Documents.List(r.Context(), r.URL.Query().Get("repository")))
		}),
	}, {
		Method: "GET", Pattern: "/v1/documents/{name}", Name: "document", Role: api.RoleUser,
		Doc:    "Get a version of a document. Its text is untrusted.",
		Out:    api.StoredDocument{},
		Params: []Param{repository, {Name: "version", Doc: "Version (default: the current one).", Type: 0}},
		Handler: give(func(r *http.Request) (api.StoredDocument, error) {
			version := 0
			if raw := r.URL.Query().Get("version"); raw != "" {
				var err error
				if version, err = strconv.Atoi(raw); err != nil || version < 1 {
					return api.StoredDocument{}, api.Errorf(api.KindInvalid, "version %.20q is not a number from 1", raw)
				}
			}
			repository, name := of(r)
			return d.Documents.Get(r.Context(), repository, name, version)
		}),
	}, {
		Method: "GET", Pattern: "/v1/documents/{name}/versions", Name: "documentVersions", Role: api.RoleUser,
		Doc:    "List the versions of a document that are kept, newest first, without their texts.",
		Out:    []api.StoredDocument{},
		Params: []Param{repository},
		Handler: give(func(r *http.Request) ([]api.StoredDocument, error) {
			repository, name := of(r)
			return listed(d.Documents.Versions(r.Context(), repository, name))
		}),
	}, {
		Method: "DELETE", Pattern: "/v1/documents/{name}", Name: "removeDocument", Role: api.RoleUser,
		Doc:    "Remove a document with all its versions. Tasks that named it keep its text.",
		Out:    api.StoredDocument{},
		Params: []Param{repository},
		Handler: give(func(r *http.Request) (api.StoredDocument, error) {
			repository, name := of(r)
			return d.Documents.Remove(r.Context(), repository, name)
		}),
	}, {
		Method: "GET", Pattern: "/v1/context-files", Name: "contextFiles", Role: api.RoleAdmin,
		Doc: "Fetch a repository and list the files in .hortus/context of a commit, which tasks can name as documents. Their titles are untrusted.",
		Out: []api.ContextFile{},
		Params: []Param{
			{Name: "repository", Doc: "Address of the repository.", Type: "", Required: true},
			{Name: "ref", Doc: "Branch, tag or commit (default: the repository's HEAD).", Type: ""},
		},
		Handler: give(func(r *http.Request) ([]api.ContextFile, error) {
			return listed(d.Documents.Files(r.Context(), r.URL.Query().Get("repository"), r.URL.Query().Get("ref")))
		}),
	}}
}

// listed makes an empty list one that is [] in JSON.
func listed[T any](all []T, err error) ([]T, error) {
	if all == nil {
		all = []T{}
	}
	return all, err
}
