package sqlite

import (
	"context"
	"database/sql"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/rowjson"
)

const (
	secretUseColumns   = `doc, seq, account, secret, sandbox, at`
	insertSecretUseSQL = `INSERT INTO secret_use (account, secret, sandbox, at, refused, size, doc) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING seq`
	countSecretUsesSQL = `UPDATE secret SET uses = uses + ?3, used_at = max(coalesce(used_at, 0), ?4) WHERE account = ?1 AND name = ?2`
)

// secretUseArgs validates a use and returns the values of its row.
func secretUseArgs(u secrets.Use) ([]any, error) {
	switch {
	case u.Secret == "" && u.Refused == "": // a placeholder may be of no secret
		return nil, api.Errorf(api.KindInvalid, "row of a use of a secret: the secret is missing")
	case u.Sandbox == "" && u.Purpose == "" && u.Missed == 0:
		return nil, api.Errorf(api.KindInvalid, "row of a use of secret %s: the sandbox is missing", u.Secret)
	case u.At.IsZero():
		return nil, api.Errorf(api.KindInvalid, "row of a use of secret %s: the time is missing", u.Secret)
	}
	u.Seq = 0 // the column has it
	doc, err := rowjson.Marshal(u)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "use of secret %s: %w", u.Secret, err)
	}
	return []any{u.Account, u.Secret, string(u.Sandbox), toMicros(u.At), u.Refused != "", len(doc), string(doc)}, nil
}

// used is what the uses of one secret add to its row.
type used struct {
	n    int
	last time.Time
}

// InsertSecretUses implements store.Store.
func (db secretTable) InsertSecretUses(ctx context.Context, all []secrets.Use) error {
	sums := map[[2]string]used{}
	for _, u := range all {
		if u.Refused != "" || u.Missed > 0 {
			continue
		}
		of := [2]string{u.Account, u.Secret}
		s := sums[of]
		if s.n++; u.At.After(s.last) {
			s.last = u.At
		}
		sums[of] = s
	}
	return insertNumbered(ctx, db.database, "uses of secrets", insertSecretUseSQL, all, secretUseArgs, func(u *secrets.Use, seq int64) { u.Seq = seq }, func(tx *sql.Tx) error {
		for of, s := range sums {
			if _, err := tx.ExecContext(ctx, countSecretUsesSQL, of[0], of[1], s.n, toMicros(s.last)); err != nil {
				return wrapError(ctx, err, "count uses of secrets")
			}
		}
		return nil
	})
}

// SecretUsePage implements store.Store.
func (db secretTable) SecretUsePage(ctx context.Context, f store.SecretUseFilter) ([]secrets.Use, store.Cursor, error) {
	w := where{conds: []string{"account = ?"}, args: []any{f.Account}}
	w.equals("secret", f.Secret)
	if f.Refused {
		w.conds = append(w.conds, "refused = 1")
	}
	if !f.Since.IsZero() {
		w.conds = append(w.conds, "at >= ?")
		w.args = append(w.args, toMicros(f.Since))
	}
	return numbered(ctx, db.database, "uses of secrets", "secret_use", secretUseColumns, w, f.Limit, f.After, scanSecretUse,
		func(u secrets.Use) (time.Time, int64) { return u.At, u.Seq })
}

func scanSecretUse(r scanner) (u secrets.Use, err error) {
	err = scanRow(r, "use of a secret", &u, &u.Seq, &u.Account, &u.Secret, &u.Sandbox, instant{&u.At})
	return u, err
}
