package sqlite

import (
	"context"
	"time"

	"hortus.dev/api"
)

const (
	selectRepositorySQL = `
		SELECT doc, id, owner, state, name, key, created_at, ended_at FROM repository`
	insertRepositorySQL = `
		INSERT INTO repository (id, owner, host, lease_epoch, state, name, key, created_at, ended_at, doc)
		VALUES (?1, ?2, coalesce((SELECT host FROM owner WHERE id = ?2), ''), 1, ?3, ?4, ?5, ?6, ?7, ?8)`
	updateRepositorySQL = `
		UPDATE repository
		SET owner = ?2, host = coalesce((SELECT host FROM owner WHERE id = ?2), ''),
			lease_epoch = lease_epoch + (owner IS NOT ?2),
			state = ?3, name = ?4, key = ?5, created_at = ?6, ended_at = ?7, doc = ?8
		WHERE id = ?1 AND (state = ?3 OR state <> 'removed')`

	repositoryLives = "state IN ('fetching', 'ready', 'failed')"
)

func repositoryTable(db *DB) table[api.Repository, api.RepositoryID] {
	return table[api.Repository, api.RepositoryID]{
		db: db, what: "repository", plural: "repositories", name: "repository", letter: "r", start: "created_at",
		selectSQL: selectRepositorySQL, insertSQL: insertRepositorySQL, updateSQL: updateRepositorySQL,
		scan: func(r scanner) (v api.Repository, err error) {
			err = scanRow(r, "repository", &v, &v.ID, text(&v.Owner), &v.State, &v.Name, &v.Key, instant{&v.CreatedAt}, instant{&v.EndedAt})
			return v, err
		},
		mark:   func(r api.Repository) (time.Time, api.RepositoryID) { return r.CreatedAt, r.ID },
		states: names(api.RepositoryFetching, api.RepositoryReady, api.RepositoryFailed, api.RepositoryRemoved),
		values: func(r api.Repository) []any {
			return []any{string(r.ID), nullable(r.Owner), string(r.State), r.Name, r.Key, toMicros(r.CreatedAt), toMicros(r.EndedAt)}
		},
	}
}

// InsertRepository implements store.Store.
func (db *DB) InsertRepository(ctx context.Context, r api.Repository) error {
	return db.repositories.insert(ctx, r)
}

// UpdateRepository implements store.Store.
func (db *DB) UpdateRepository(ctx context.Context, r api.Repository) error {
	return db.repositories.update(ctx, r)
}

// Repository implements store.Store.
func (db *DB) Repository(ctx context.Context, id api.RepositoryID) (api.Repository, error) {
	return db.repositories.get(ctx, db.read, id)
}

// ListRepositories implements store.Store.
func (db *DB) ListRepositories(ctx context.Context) ([]api.Repository, error) {
	return db.repositories.listLive(ctx, repositoryLives, false)
}

// RepositoryPage implements store.Store.
func (db *DB) RepositoryPage(ctx context.Context, account string, p api.PageRequest) ([]api.Repository, string, error) {
	w := where{conds: []string{repositoryLives}}
	w.equals("account", account)
	return db.repositories.page(ctx, w, p)
}

// NamedRepository implements store.Store.
func (db *DB) NamedRepository(ctx context.Context, account, name string) (api.Repository, error) {
	w := ofAccount(account)
	w.and(repositoryLives)
	w.and("name = ?", name)
	all, err := db.repositories.list(ctx, db.read, w, 1)
	if err == nil && len(all) == 0 {
		err = notFound("repository", name)
	}
	if err != nil {
		return api.Repository{}, err
	}
	return all[0], nil
}

// FindRepositoryOf implements store.Store.
func (db *DB) FindRepositoryOf(ctx context.Context, account, prefix string) (api.RepositoryID, error) {
	return db.repositories.find(ctx, account, prefix)
}
