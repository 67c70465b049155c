package database

import (
	"context"
	"database/sql"

	"hortus.dev/api"
)

// sharedOf is the additional data of a shared value.
func sharedOf(name string) string { return "shared:" + name }

// SharedValue implements store.Store.
func (db *DB) SharedValue(ctx context.Context, name string) ([]byte, error) {
	sealed, err := get(ctx, db.read, "shared value", name, func(r scanner) (b []byte, err error) {
		err = r.Scan(&b)
		return b, err
	}, `SELECT sealed FROM shared_value WHERE name = $1`)
	if err != nil {
		return nil, err
	}
	value, err := db.sealer.open(sealed, sharedOf(name))
	if err != nil {
		return nil, api.Errorf(api.KindConflict, "shared value %.64s cannot be decrypted: the key of the database does not fit", name).
			WithHint("all nodes need the same key: set store.key-file to a copy of it")
	}
	return value, nil
}

// ShareValue implements store.Store.
func (db *DB) ShareValue(ctx context.Context, name string, value []byte) ([]byte, error) {
	if name == "" || len(value) == 0 {
		return nil, api.Errorf(api.KindInvalid, "a shared value needs a name and a value")
	}
	if err := db.mayGrow("shared value " + name); err != nil {
		return nil, err
	}
	_, err := db.execRelieved(ctx, func() (sql.Result, error) {
		return db.write.ExecContext(ctx, `INSERT INTO shared_value (name, sealed) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`,
			name, db.sealer.seal(value, sharedOf(name)))
	})
	if err != nil {
		return nil, wrapError(ctx, err, "store shared value %s", name)
	}
	return db.SharedValue(ctx, name)
}
