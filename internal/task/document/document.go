package document

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/cache"
)

// Rows stores documents; see store.Documents.
type Rows interface {
	PutDocument(ctx context.Context, d api.StoredDocument, ifVersion *int) (api.StoredDocument, error)
	Document(ctx context.Context, account, repository, name string, version int) (api.StoredDocument, error)
	DocumentVersions(ctx context.Context, account, repository, name string) ([]api.StoredDocument, error)
	DocumentsOf(ctx context.Context, account string) ([]api.StoredDocument, error)
	RemoveDocument(ctx context.Context, account, repository, name string) (api.StoredDocument, error)
}

// Config is what documents are kept with. Room and Now may be nil. Without git, Cache is nil, and files of repositories cannot
// be listed.
type Config struct {
	Rows Rows
	// Room refuses bytes that an account may not store.
	Room  func(ctx context.Context, account, what string, need int64) error
	Cache *cache.Cache
	// Source adds the credentials for an address.
	Source func(ctx context.Context, url string) (git.Source, error)
	Now    func() time.Time
}

// Documents keeps documents. Its methods may be called from several goroutines. Account "" is the operator's own.
type Documents struct{ cfg Config }

// New keeps documents.
func New(cfg Config) *Documents {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Documents{cfg}
}

// scope is the address of a repository as it is stored: equal for all spellings, without credentials.
func scope(repository string) (string, error) {
	if repository == "" {
		return "", nil
	}
	r, err := git.ParseRemote(git.StripCredentials(repository), true)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(r.URL, "/"), nil
}

func check(repository, name string) (string, error) {
	if !api.ValidDocumentName(name) {
		return "", api.Errorf(api.KindInvalid, "%.80q is not a valid name for a document", name).
			WithHint(`use 1 to 63 lower-case letters, digits, ".", "_" and "-", beginning with a letter or a digit`)
	}
	return scope(repository)
}

// Put stores a new version of a document, written with a key.
func (d *Documents) Put(ctx context.Context, account string, key api.KeyID, name string, req api.PutDocument) (api.StoredDocument, error) {
	repository, err := check(req.Repository, name)
	if err != nil {
		return api.StoredDocument{}, err
	}
	title := strings.TrimSpace(req.Title)
	switch {
	case strings.TrimSpace(req.Text) == "":
		err = api.Errorf(api.KindInvalid, "document %s: the text is empty", name)
	case len(req.Text) > api.MaxDocument:
		err = api.Errorf(api.KindInvalid, "document %s has %d bytes; the maximum is %d", name, len(req.Text), api.MaxDocument).
			WithHint("store several documents: a task takes those that it needs")
	case !utf8.ValidString(req.Text) || strings.ContainsRune(req.Text, 0):
		err = api.Errorf(api.KindInvalid, "document %s is not UTF-8 text", name)
	case len(title) > api.MaxDocumentTitle || strings.ContainsFunc(title, unprintable) || !utf8.ValidString(title):
		err = api.Errorf(api.KindInvalid, "document %s: the title is longer than %d bytes, or not one line of text", name, api.MaxDocumentTitle)
	case req.IfVersion != nil && *req.IfVersion < 0:
		err = api.Errorf(api.KindInvalid, "document %s: version %d cannot be expected; versions count from 1, and 0 means that there is none", name, *req.IfVersion)
	}
	if err != nil {
		return api.StoredDocument{}, err
	}
	if d.cfg.Room != nil {
		if err := d.cfg.Room(ctx, account, "document "+name, int64(len(req.Text))); err != nil {
			return api.StoredDocument{}, err
		}
	}
	if title == "" {
		title = heading(req.Text, name)
	}
	return d.cfg.Rows.PutDocument(ctx, api.StoredDocument{
		Account: account, Repository: repository, Name: name, Title: title, Text: req.Text, Key: key,
		WrittenAt: d.cfg.Now().UTC().Truncate(time.Microsecond),
	}, req.IfVersion)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// heading is the first heading of a text, if a line is one, and otherwise a name.
func heading(text, name string) string {
	for line := range strings.Lines(text) {
		if h, ok := strings.CutPrefix(line, "# "); ok {
			h = strings.Map(func(r rune) rune {
				if unprintable(r) {
					return -1
				}
				return r
			}, strings.ToValidUTF8(h, "?"))
			if h = strings.TrimSpace(api.Clip(h, api.MaxDocumentTitle)); h != "" {
				return h
			}
		}
	}
	return name
}

// Get returns a version of a document, 0 for the current one.
func (d *Documents) Get(ctx context.Context, account, repository, name string, version int) (api.StoredDocument, error) {
	repository, err := check(repository, name)
	if err != nil {
		return api.StoredDocument{}, err
	}
	if version < 0 {
		return api.StoredDocument{}, api.Errorf(api.KindInvalid, "version %d of document %s: versions count from 1", version, name)
	}
	return d.cfg.Rows.Document(ctx, account, repository, name, version)
}

// Versions lists the versions of a document that are kept, the newest first.
func (d *Documents) Versions(ctx context.Context, account, repository, name string) ([]api.StoredDocument, error) {
	repository, err := check(repository, name)
	if err != nil {
		return nil, err
	}
	return d.cfg.Rows.DocumentVersions(ctx, account, repository, name)
}

// Remove removes a document with all versions, and returns what was current.
func (d *Documents) Remove(ctx context.Context, account, repository, name string) (api.StoredDocument, error) {
	repository, err := check(repository, name)
	if err != nil {
		return api.StoredDocument{}, err
	}
	return d.cfg.Rows.RemoveDocument(ctx, account, repository, name)
}

// List lists the documents of an account without their texts: those of the account and of a repository, or all for "".
func (d *Documents) List(ctx context.Context, account, repository string) ([]api.StoredDocument, error) {
	repository, err := scope(repository)
	if err != nil {
		return nil, err
	}
	all, err := d.cfg.Rows.DocumentsOf(ctx, account)
	if repository != "" {
		all = slices.DeleteFunc(all, func(s api.StoredDocument) bool { return s.Repository != "" && s.Repository != repository })
	}
	return all, err
}

// Title names a document that a task can have.
type Title struct {
	// Name is what RepoTask.Documents names it by. Title is untrusted.
	Name, Title string
	Bytes       int64
}

// Titles lists what a task of an account on a repository can have, for who picks: stored documents, and the files of the
// commit that ref names, which is fetched.
func (d *Documents) Titles(ctx context.Context, account, repository, ref string) ([]Title, error) {
	stored, err := d.List(ctx, account, repository)
	if err != nil {
		return nil, err
	}
	var out []Title
	for _, s := range stored {
		t := Title{s.Name, s.Title, int64(s.Bytes)}
		// One of the repository follows, and replaces, that of the account.
		if i := slices.IndexFunc(out, func(have Title) bool { return have.Name == t.Name }); i >= 0 {
			out[i] = t
			continue
		}
		out = append(out, t)
	}
	files, err := d.Files(ctx, repository, ref)
	for _, f := range files {
		if f.Unusable == "" {
			out = append(out, Title{f.Path, f.Title, f.Bytes})
		}
	}
	return out, err
}

// Read returns stored documents by their names, each from the first of the repositories that has it, or else from the account.
func (d *Documents) Read(ctx context.Context, account string, repositories, names []string) ([]api.Document, error) {
	var out []api.Document
	for _, name := range names {
		s, err := d.find(ctx, account, repositories, name)
		if err != nil {
			return nil, err
		}
		out = append(out, api.Document{Name: s.Name, Text: s.Text, Version: s.Version})
	}
	return out, nil
}

func (d *Documents) find(ctx context.Context, account string, repositories []string, name string) (api.StoredDocument, error) {
	for _, r := range append(slices.Clone(repositories), "") {
		s, err := d.Get(ctx, account, r, name, 0)
		if api.KindOf(err) != api.KindNotFound {
			return s, err
		}
	}
	return api.StoredDocument{}, api.Errorf(api.KindNotFound, "neither the repository nor the account has a stored document %q", name).
		WithHint("list them: hortus document ls; name a file of the repository by its path: %s", fmt.Sprintf("%s%s.md", api.ContextDir, name))
}
