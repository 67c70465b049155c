package sqlite

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
)

// RenewSecret implements store.Store.
func (db secretTable) RenewSecret(ctx context.Context, account, name, was, value string, at time.Time) error {
	if value == "" || at.IsZero() {
		return api.Errorf(api.KindInvalid, "row of secret %s: the new value or its time is missing", name)
	}
	return db.inTx(ctx, "secret "+name, func(tx *sql.Tx) error {
		have, err := db.valueIn(ctx, tx, account, name)
		if err != nil {
			return err
		}
		if have != was {
			return api.Errorf(api.KindConflict, "secret %s has another value than the one that is to be replaced", name)
		}
		_, err = tx.ExecContext(ctx, `UPDATE secret SET sealed = ?, updated_at = ? WHERE account = ? AND name = ?`,
			db.sealer.Secret(account, name, value), toMicros(at), account, name)
		if err != nil {
			return wrapError(ctx, err, "store secret %s", name)
		}
		return nil
	})
}
