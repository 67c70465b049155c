package sqlite

import (
	"context"
	"slices"
	"strings"

	"hortus.dev/internal/store"
)

// journal has the statements that remove rows of a table with the columns account, seq, size and
// at. Those that find rows are for one account (?1): beyond a number (?2), and beyond a number of
// bytes (?2). Each returns the largest seq to remove.
type journal struct{ what, beyondRows, beyondBytes, accounts, remove, removeOld string }

func journalOf(table, what string) journal {
	in := strings.NewReplacer("TABLE", table).Replace
	return journal{
		what:       what,
		beyondRows: in(`SELECT seq FROM TABLE WHERE account = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2`),
		beyondBytes: in(`SELECT seq FROM (SELECT seq, sum(size) OVER (ORDER BY seq DESC) AS total FROM TABLE WHERE account = ?1) AS sums
			WHERE total > ?2 ORDER BY seq DESC LIMIT 1`),
		// The accounts, with one step in the index for each.
		accounts: in(`WITH RECURSIVE accounts (account) AS (
				SELECT min(account) FROM TABLE
				UNION ALL SELECT (SELECT min(account) FROM TABLE WHERE TABLE.account > accounts.account) FROM accounts WHERE account IS NOT NULL)
			SELECT account FROM accounts WHERE account IS NOT NULL`),
		remove:    in(`DELETE FROM TABLE WHERE seq IN (SELECT seq FROM TABLE WHERE account = ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3)`),
		removeOld: in(`DELETE FROM TABLE WHERE seq IN (SELECT seq FROM TABLE WHERE at < ?1 ORDER BY at LIMIT ?2)`),
	}
}

// journalBatch is the number of rows that one transaction removes; other writers wait for it.
const journalBatch = 1000

// pruneJournal removes the rows that exceed a retention and adds their number to done. The
// age is that of each row: a clock that was wrong for a time removes only what it stamped.
func (db pruner) pruneJournal(ctx context.Context, j journal, keep store.Retention, done *int) error {
	if !keep.Before.IsZero() {
		if err := db.removeRows(ctx, j, done, j.removeOld, toMicros(keep.Before), journalBatch); err != nil {
			return err
		}
	}
	accounts, err := list(ctx, db.read, "accounts of "+j.what, scanValue[string], j.accounts)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		beyondRows, err := list(ctx, db.read, "old "+j.what, scanValue[int64], j.beyondRows, account, keep.Decisions)
		if err != nil {
			return err
		}
		beyondBytes, err := list(ctx, db.read, "old "+j.what, scanValue[int64], j.beyondBytes, account, keep.Bytes)
		if err != nil {
			return err
		}
		last := slices.Max(append(append(beyondRows, beyondBytes...), 0))
		if last == 0 {
			continue
		}
		if err := db.removeRows(ctx, j, done, j.remove, account, last, journalBatch); err != nil {
			return err
		}
	}
	return nil
}

// removeRows runs a statement that removes at most journalBatch rows until it removes fewer.
func (db pruner) removeRows(ctx context.Context, j journal, done *int, query string, args ...any) error {
	for {
		r, err := db.write.ExecContext(ctx, query, args...)
		if err != nil {
			return wrapError(ctx, err, "remove old %s", j.what)
		}
		n, err := r.RowsAffected()
		if err != nil {
			return wrapError(ctx, err, "remove old %s", j.what)
		}
		*done += int(n)
		if n < journalBatch {
			return nil
		}
	}
}
