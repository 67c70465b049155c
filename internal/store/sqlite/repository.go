package sqlite

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
)

type repositoryTable struct {
	table[api.Repository, api.RepositoryID]
}

func newRepositoryTable(db *database) repositoryTable {
	return repositoryTable{table[api.Repository, api.RepositoryID]{
		db: db, what: "repository", plural: "repositories", name: "repository", letter: "r", at: "created_at",
		columns: `doc, id, owner, state, name, key, created_at, ended_at`, scan: scanRepository,
		mark:   func(r api.Repository) (time.Time, api.RepositoryID) { return r.CreatedAt, r.ID },
		states: names(api.RepositoryFetching, api.RepositoryReady, api.RepositoryFailed, api.RepositoryRemoved),
		final:  names(api.RepositoryRemoved),
		stored: []string{"state", "name", "key", "created_at", "ended_at", "doc"},
		values: func(r api.Repository) []any {
			return []any{string(r.ID), nullable(r.Owner), string(r.State), r.Name, r.Key, toMicros(r.CreatedAt), toMicros(r.EndedAt)}
		},
	}}
}

// InsertRepository implements store.Store.
func (t repositoryTable) InsertRepository(ctx context.Context, r api.Repository) error {
	return t.insert(ctx, r)
}

// UpdateRepository implements store.Store.
func (t repositoryTable) UpdateRepository(ctx context.Context, r api.Repository) error {
	return t.update(ctx, r)
}

// Repository implements store.Store.
func (t repositoryTable) Repository(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	return t.get(ctx, t.db.read, id)
}

// Repositories implements store.Store.
func (t repositoryTable) Repositories(ctx context.Context, f store.RepositoryFilter) ([]api.Repository, error) {
	return t.list(ctx, t.db.read, repositoryWhere(f), f.Limit)
}

// RepositoryPage implements store.Store.
func (t repositoryTable) RepositoryPage(ctx context.Context, f store.RepositoryFilter) ([]api.Repository, store.Cursor, error) {
	return t.page(ctx, t.db.read, repositoryWhere(f), f.Limit, f.After)
}

// FindRepositoryOf implements store.Store.
func (t repositoryTable) FindRepositoryOf(ctx context.Context, account, prefix string) (api.RepositoryID, error) {
	return t.find(ctx, account, prefix)
}

func repositoryWhere(f store.RepositoryFilter) (w where) {
	in(&w, "state", f.States)
	w.equals("account", f.Account)
	w.equals("name", f.Name)
	if f.Operators {
		w.conds = append(w.conds, "account IS NULL")
	}
	return w
}

func scanRepository(r scanner) (v api.Repository, err error) {
	err = scanRow(r, "repository", &v, &v.ID, text(&v.Owner), &v.State, &v.Name, &v.Key, instant{&v.CreatedAt}, instant{&v.EndedAt})
	return v, err
}
