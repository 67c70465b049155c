package database

import (
	"context"
	"database/sql"

	"hortus.dev/api"
)

const (
	documentColumns = `account, repository, name, version, title, octet_length(text), key, written_at`
	currentSQL      = `
		version = (SELECT max(version) FROM document AS d
			WHERE d.account = document.account AND d.repository = document.repository AND d.name = document.name)`
	ofDocumentSQL      = ` WHERE account = $1 AND repository = $2 AND name = $3`
	selectDocumentSQL  = `SELECT ` + documentColumns + `, text FROM document` + ofDocumentSQL
	documentVersionSQL = `SELECT coalesce(max(version), 0) FROM document` + ofDocumentSQL
	countDocumentsSQL  = `SELECT count(*) FROM (SELECT DISTINCT repository, name FROM document WHERE account = $1) AS names`
	insertDocumentSQL  = `
		INSERT INTO document (account, repository, name, version, title, text, key, written_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	trimDocumentSQL = `DELETE FROM document` + ofDocumentSQL + ` AND version <= $4`
)

func scanDocument(r scanner) (d api.StoredDocument, err error) {
	err = r.Scan(&d.Account, &d.Repository, &d.Name, &d.Version, &d.Title, &d.Bytes, &d.Key, instant{&d.WrittenAt})
	return d, err
}

func scanWholeDocument(r scanner) (d api.StoredDocument, err error) {
	var text string
	d, err = scanDocument(extraColumn{r, &text})
	d.Text = text
	return d, err
}

func unknownDocument(repository, name string) error {
	if repository == "" {
		return api.Errorf(api.KindNotFound, "the account has no document %.64q", name).WithHint("list them: hortus document ls")
	}
	return api.Errorf(api.KindNotFound, "repository %.200s has no stored document %.64q", repository, name).WithHint("list them: hortus document ls")
}

// PutDocument implements store.Store.
func (db *DB) PutDocument(ctx context.Context, d api.StoredDocument, ifVersion *int) (api.StoredDocument, error) {
	if d.Name == "" || d.Title == "" || d.Text == "" || len(d.Text) > api.MaxDocument || d.WrittenAt.IsZero() {
		return d, api.Errorf(api.KindInvalid, "row of document %.64q: the name, the title or the time is missing, or the text is empty or too long", d.Name)
	}
	err := db.growTx(ctx, "document "+d.Name, func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "documents", d.Account); err != nil {
			return err
		}
		have, err := scanValue[int](tx.QueryRowContext(ctx, documentVersionSQL, d.Account, d.Repository, d.Name))
		if err != nil {
			return wrapError(ctx, err, "read the version of document %.64q", d.Name)
		}
		if ifVersion != nil && *ifVersion != have {
			return documentConflict(d.Name, *ifVersion, have)
		}
		if have == 0 {
			all, err := scanValue[int](tx.QueryRowContext(ctx, countDocumentsSQL, d.Account))
			if err != nil {
				return wrapError(ctx, err, "count documents")
			}
			if all >= api.MaxDocuments {
				return api.Errorf(api.KindExhausted, "the account has %d documents, which is the maximum", all).WithHint("remove one: hortus document rm NAME")
			}
		}
		d.Version, d.Bytes = have+1, len(d.Text)
		_, err = tx.ExecContext(ctx, insertDocumentSQL, d.Account, d.Repository, d.Name, d.Version, d.Title, d.Text, string(d.Key), toMicros(d.WrittenAt))
		if err == nil {
			_, err = tx.ExecContext(ctx, trimDocumentSQL, d.Account, d.Repository, d.Name, d.Version-api.MaxDocumentVersions)
		}
		if err != nil {
			return wrapError(ctx, err, "store document %.64q", d.Name)
		}
		return nil
	})
	return d, err
}

func documentConflict(name string, want, have int) error {
	switch {
	case have == 0:
		return api.Errorf(api.KindConflict, "document %.64q does not exist, so version %d cannot be replaced", name, want).WithHint("expect version 0 to create it")
	case want == 0:
		return api.Errorf(api.KindConflict, "document %.64q exists already: its current version is %d", name, have).WithHint("expect version %d to replace it", have)
	}
	return api.Errorf(api.KindConflict, "document %.64q has changed: its current version is %d, not %d", name, have, want).
		WithHint("read it, then expect version %d", have)
}

// Document implements store.Store.
func (db *DB) Document(ctx context.Context, account, repository, name string, version int) (api.StoredDocument, error) {
	query := selectDocumentSQL + ` AND ($4 = 0 OR version = $4) ORDER BY version DESC LIMIT 1`
	d, err := scanWholeDocument(db.read.QueryRowContext(ctx, query, account, repository, name, version))
	switch {
	case err == sql.ErrNoRows && version == 0:
		return d, unknownDocument(repository, name)
	case err == sql.ErrNoRows:
		return d, api.Errorf(api.KindNotFound, "no version %d of document %.64q is stored", version, name).
			WithHint("list them: hortus document history %.64s", name)
	case err != nil:
		return d, wrapError(ctx, err, "read document %.64q", name)
	}
	return d, nil
}

// DocumentVersions implements store.Store.
func (db *DB) DocumentVersions(ctx context.Context, account, repository, name string) ([]api.StoredDocument, error) {
	all, err := list(ctx, db.read, "versions of a document", scanDocument,
		`SELECT `+documentColumns+` FROM document`+ofDocumentSQL+` ORDER BY version DESC`, account, repository, name)
	if err == nil && len(all) == 0 {
		err = unknownDocument(repository, name)
	}
	return all, err
}

// DocumentsOf implements store.Store.
func (db *DB) DocumentsOf(ctx context.Context, account string) ([]api.StoredDocument, error) {
	return list(ctx, db.read, "documents", scanDocument,
		`SELECT `+documentColumns+` FROM document WHERE account = $1 AND`+currentSQL+` ORDER BY repository, name`, account)
}

// RemoveDocument implements store.Store.
func (db *DB) RemoveDocument(ctx context.Context, account, repository, name string) (d api.StoredDocument, err error) {
	err = db.inTx(ctx, "document "+name, func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, "documents", account); err != nil {
			return err
		}
		d, err = scanWholeDocument(tx.QueryRowContext(ctx, selectDocumentSQL+` ORDER BY version DESC LIMIT 1`, account, repository, name))
		if err == sql.ErrNoRows {
			return unknownDocument(repository, name)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM document`+ofDocumentSQL, account, repository, name)
		}
		if err != nil {
			return wrapError(ctx, err, "remove document %.64q", name)
		}
		return nil
	})
	return d, err
}

// DocumentBytes implements store.Store.
func (db *DB) DocumentBytes(ctx context.Context, account string) (int64, error) {
	n, err := scanValue[int64](db.read.QueryRowContext(ctx, `SELECT coalesce(sum(octet_length(text)), 0) FROM document WHERE account = $1`, account))
	if err != nil {
		return 0, wrapError(ctx, err, "read the size of the documents of account %.64q", account)
	}
	return n, nil
}
