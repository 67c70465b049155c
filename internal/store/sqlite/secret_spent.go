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
		over, err = spent.Reserve(ctx, tx, by, a)
		return secretError(ctx, err, by.Secret)
	})
	return over, err
}

// SettleSecret implements store.Store.
func (db secretTable) SettleSecret(ctx context.Context, by secrets.Spender, change secrets.Amounts) error {
	if err := checkSpender(by); err != nil {
		return err
	}
	return secretError(ctx, spent.Settle(ctx, db.write, by, change), by.Secret)
}

// ResetSecretSpent implements store.Store.
func (db secretTable) ResetSecretSpent(ctx context.Context, account, name string) error {
	_, err := db.write.ExecContext(ctx, spent.ResetSQL, account, name)
	return secretError(ctx, err, name)
}

// SecretSpent implements store.Store.
func (db secretTable) SecretSpent(ctx context.Context, account, name string, at time.Time, tasks int) (secrets.Spent, error) {
	out, err := spent.Of(ctx, db.read, account, name, at, tasks)
	return out, secretError(ctx, err, name)
}

// pruneSpent removes what was used on days and by tasks that have ended, and exceeds a retention.
func (db pruner) pruneSpent(ctx context.Context, keep store.Retention, done *int) error {
	var oldest int64
	if !keep.Before.IsZero() {
		oldest = keep.Before.UnixMicro()
	}
	return db.removeRows(ctx, journal{what: "amounts that secrets used"}, done, spent.PruneSQL, keep.Decisions, oldest, journalBatch)
}
