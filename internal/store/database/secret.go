package database

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/internal/store/rowjson"
)

const (
	selectSecretSQL = `
		SELECT doc, seq, account, name, created_at, updated_at, used_at, uses FROM secret`
	putSecretSQL = `
		INSERT INTO secret (account, name, created_at, updated_at, sealed, doc)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (account, name) DO UPDATE
		SET updated_at = excluded.updated_at, sealed = excluded.sealed, doc = excluded.doc
		RETURNING doc, seq, account, name, created_at, updated_at, used_at, uses`
	removeSecretSQL = `
		DELETE FROM secret WHERE account = $1 AND name = $2
		RETURNING doc, seq, account, name, created_at, updated_at, used_at, uses`
)

// secretRow is a secret with its number, which is where a page begins.
type secretRow struct {
	secrets.Secret
	seq int64
}

func scanSecret(r scanner) (row secretRow, err error) {
	s := &row.Secret
	var used time.Time
	err = scanRow(r, "secret", s, &row.seq, &s.Account, &s.Name, instant{&s.CreatedAt}, instant{&s.UpdatedAt}, instant{&used}, &s.Uses)
	if s.UsedAt = nil; !used.IsZero() {
		s.UsedAt = &used
	}
	return row, err
}

// PutSecret implements store.Store.
func (db *DB) PutSecret(ctx context.Context, s secrets.Secret, value string, most int) (secrets.Secret, error) {
	switch {
	case s.Name == "":
		return s, api.Errorf(api.KindInvalid, "row of a secret: the name is missing")
	case s.CreatedAt.IsZero() || s.UpdatedAt.IsZero():
		return s, api.Errorf(api.KindInvalid, "row of secret %s: a time is missing", s.Name)
	case s.Source == "" || (s.Source == secrets.Stored) != (value != ""):
		return s, api.Errorf(api.KindInvalid, "row of secret %s: the source %.40q does not match its value", s.Name, s.Source)
	}
	var hidden []byte
	if value != "" {
		hidden = db.sealer.secret(s.Account, s.Name, value)
	}
	var row secretRow
	err := db.growTx(ctx, "secret "+s.Name, func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "secrets", s.Account); err != nil {
			return err
		}
		var others int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM secret WHERE account = $1 AND name <> $2`, s.Account, s.Name).Scan(&others); err != nil {
			return wrapError(ctx, err, "count secrets")
		}
		if others >= most {
			return api.Errorf(api.KindExhausted, "%d secrets exist, which is the maximum", others).WithHint("remove one: hortus secret rm NAME")
		}
		s, err := succeed(ctx, tx, s)
		if err != nil {
			return err
		}
		doc := s
		doc.Account, doc.UsedAt, doc.Uses, doc.Spent = "", nil, 0, nil // columns have them
		text, err := rowjson.Marshal(doc)
		if err != nil {
			return api.Errorf(api.KindInvalid, "secret %s: %w", s.Name, err)
		}
		row, err = scanSecret(tx.QueryRowContext(ctx, putSecretSQL,
			s.Account, s.Name, toMicros(s.CreatedAt), toMicros(s.UpdatedAt), hidden, string(text)))
		if err != nil {
			return wrapError(ctx, err, "store secret %s", s.Name)
		}
		return nil
	})
	return row.Secret, err
}

// succeed returns a secret with its version, and with the ID of the one that it replaces.
func succeed(ctx context.Context, tx *sql.Tx, s secrets.Secret) (secrets.Secret, error) {
	old, err := scanSecret(tx.QueryRowContext(ctx, selectSecretSQL+` WHERE account = $1 AND name = $2`, s.Account, s.Name))
	there := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return s, wrapError(ctx, err, "read secret %.64q", s.Name)
	}
	next := int64(1)
	if there {
		next = old.Version + 1
	}
	switch {
	case s.Version == 1 && there:
		return s, api.Errorf(api.KindExists, "secret %s exists", s.Name)
	case s.Version > 1 && !there:
		return s, api.Errorf(api.KindConflict, "secret %s does not exist, so it cannot become version %d", s.Name, s.Version)
	case s.Version != 0 && s.Version != next:
		return s, api.Errorf(api.KindConflict, "secret %s is at version %d, and cannot become version %d", s.Name, next-1, s.Version)
	}
	if s.Version = next; there {
		s.ID = old.ID
	}
	return s, nil
}

// Secret implements store.Store.
func (db *DB) Secret(ctx context.Context, account, name string) (secrets.Secret, error) {
	row, err := scanSecret(db.read.QueryRowContext(ctx, selectSecretSQL+` WHERE account = $1 AND name = $2`, account, name))
	return row.Secret, secretError(ctx, err, name)
}

// secretError returns the error of a statement about one secret.
func secretError(ctx context.Context, err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return notFound("secret", name)
	}
	return wrapError(ctx, err, "read secret %.64q", name)
}

// SecretValue implements store.Store.
func (db *DB) SecretValue(ctx context.Context, account, name string) (string, error) {
	return db.valueIn(ctx, db.read, account, name)
}

// valueIn reads the value of a secret.
func (db *DB) valueIn(ctx context.Context, r runner, account, name string) (string, error) {
	var hidden []byte
	err := r.QueryRowContext(ctx, `SELECT sealed FROM secret WHERE account = $1 AND name = $2`, account, name).Scan(&hidden)
	if err := secretError(ctx, err, name); err != nil {
		return "", err
	}
	if hidden == nil {
		return "", api.Errorf(api.KindConflict, "secret %s has no stored value", name)
	}
	value, err := db.sealer.openSecret(account, name, hidden)
	if err != nil {
		return "", api.Errorf(api.KindConflict, "the value of secret %s cannot be decrypted: it was encrypted with another key, or is damaged", name).
			WithHint("restore the key file of the database (its name ends in %s), or set the value again: hortus secret set %s", keySuffix, name)
	}
	return value, nil
}

// RemoveSecret implements store.Store.
func (db *DB) RemoveSecret(ctx context.Context, account, name string) (secrets.Secret, error) {
	var row secretRow
	err := db.relieved(func() (err error) {
		row, err = scanSecret(db.write.QueryRowContext(ctx, removeSecretSQL, account, name))
		return err
	})
	return row.Secret, secretError(ctx, err, name)
}

// RenewSecret implements store.Store.
func (db *DB) RenewSecret(ctx context.Context, account, name, was, value string, at time.Time) error {
	if value == "" || at.IsZero() {
		return api.Errorf(api.KindInvalid, "row of secret %s: the new value or its time is missing", name)
	}
	return db.inTx(ctx, "secret "+name, func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "secrets", account); err != nil {
			return err
		}
		have, err := db.valueIn(ctx, tx, account, name)
		if err != nil {
			return err
		}
		if have != was {
			return api.Errorf(api.KindConflict, "secret %s has another value than the one that is to be replaced", name)
		}
		_, err = tx.ExecContext(ctx, `UPDATE secret SET sealed = $1, updated_at = $2 WHERE account = $3 AND name = $4`,
			db.sealer.secret(account, name, value), toMicros(at), account, name)
		if err != nil {
			return wrapError(ctx, err, "store secret %s", name)
		}
		return nil
	})
}

// SecretPage implements store.Store.
func (db *DB) SecretPage(ctx context.Context, account string, p api.PageRequest) ([]secrets.Secret, string, error) {
	rows, next, err := numberedPage(ctx, db, "secrets", selectSecretSQL, where{[]string{"account = ?"}, []any{account}}, p, scanSecret,
		func(r secretRow) (time.Time, int64) { return r.CreatedAt, r.seq })
	var out []secrets.Secret
	for _, r := range rows {
		out = append(out, r.Secret)
	}
	return out, next, err
}
