package sqlite

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/sqlite/spent"
)

// checkSpender refuses one whose requests cannot be counted.
func checkSpender(by secrets.Spender) error {
	if by.Secret == "" || by.Task == "" || by.At.IsZero() {
		return api.Errorf(api.KindInvalid, "a use of secret %s: the secret, the task or the time is missing", by.Secret)
	}
	return nil
}

// ReserveSecret implements store.Store.
func (db secretTable) ReserveSecret(ctx context.Context, by secrets.Spender, a secrets.Amounts) (over *secrets.Exhausted, err error) {
	if err := checkSpender(by); err != nil {
		return nil, err
	}
	if a.Requests < 0 || a.Tokens < 0 || a.MicroUSD < 0 {
		return nil, api.Errorf(api.KindInvalid, "a use of secret %s: an amount is negative", by.Secret)
	}
	err = db.inTx(ctx, "the budgets of secret "+by.Secret, func(tx *sql.Tx) error {
		row, err := scanSecret(tx.QueryRowContext(ctx, `SELECT `+secretColumns+` FROM secret WHERE account = ? AND name = ?`, by.Account, by.Secret))
		if err != nil || len(row.Budgets) == 0 {
			return secretError(ctx, err, by.Secret)
		}
		if over, err = spent.Reserve(ctx, tx, row.seq, row.Budgets, by, a); err != nil {
			return wrapError(ctx, err, "count a use of secret %s", by.Secret)
		}
		return nil
	})
	return over, err
}

// SettleSecret implements store.Store.
func (db secretTable) SettleSecret(ctx context.Context, by secrets.Spender, change secrets.Amounts) error {
	err := checkSpender(by)
	if err == nil {
		err = spent.Settle(ctx, db.write, by, change)
	}
	if err != nil {
		return wrapError(ctx, err, "count a use of secret %s", by.Secret)
	}
	return nil
}

// ResetSecretSpent implements store.Store.
func (db secretTable) ResetSecretSpent(ctx context.Context, account, name string) error {
	if _, err := db.write.ExecContext(ctx, spent.ResetSQL, account, name); err != nil {
		return wrapError(ctx, err, "reset what secret %s used", name)
	}
	return nil
}

// SecretSpent implements store.Store.
func (db secretTable) SecretSpent(ctx context.Context, account, name string, at time.Time, tasks int) (secrets.Spent, error) {
	row, err := scanSecret(db.read.QueryRowContext(ctx, `SELECT `+secretColumns+` FROM secret WHERE account = ? AND name = ?`, account, name))
	if err != nil {
		return secrets.Spent{}, secretError(ctx, err, name)
	}
	out, err := spent.Of(ctx, db.read, row.seq, at, tasks)
	if err != nil {
		err = wrapError(ctx, err, "read what secret %s used", name)
	}
	return out, err
}

// pruneSpent removes what was used on days and by tasks that have ended, and exceeds a retention.
func (db pruner) pruneSpent(ctx context.Context, keep store.Retention, done *int) error {
	var oldest int64
	if !keep.Before.IsZero() {
		oldest = keep.Before.UnixMicro()
	}
	return db.removeRows(ctx, journal{what: "amounts that secrets used"}, done, spent.PruneSQL, keep.Decisions, oldest, journalBatch)
}
