package sqlite

import (
	"context"
	"strings"

	"hortus.dev/api"
)

// FindTaskOf returns the task of an account whose identifier begins with prefix, which
// may lack the leading "t"; account "" means all of them. KindNotFound if there is none;
// KindInvalid if there are several, with some of them in the message, and for an empty
// prefix. Tasks of other accounts do not make a prefix ambiguous.
func (db taskTable) FindTaskOf(ctx context.Context, account, prefix string) (api.TaskID, error) {
	id, err := db.find(ctx, "task", "task", "t", account, prefix)
	return api.TaskID(id), err
}

// FindSandbox is FindTaskOf all accounts for sandboxes, whose leading letter is "i".
func (db sandboxTable) FindSandbox(ctx context.Context, prefix string) (api.SandboxID, error) {
	return db.FindSandboxOf(ctx, "", prefix)
}

// FindSandboxOf is FindTaskOf for sandboxes.
func (db sandboxTable) FindSandboxOf(ctx context.Context, account, prefix string) (api.SandboxID, error) {
	if err := db.ahead.settle(ctx); err != nil {
		return "", err
	}
	id, err := db.find(ctx, "sandbox", "sandbox", "i", account, prefix)
	return api.SandboxID(id), err
}

// FindSnapshot is FindTaskOf all accounts for snapshots, whose leading letter is "s".
func (db snapshotTable) FindSnapshot(ctx context.Context, prefix string) (api.SnapshotID, error) {
	return db.FindSnapshotOf(ctx, "", prefix)
}

// FindSnapshotOf is FindTaskOf for snapshots.
func (db snapshotTable) FindSnapshotOf(ctx context.Context, account, prefix string) (api.SnapshotID, error) {
	id, err := db.find(ctx, "snapshot", "snapshot", "s", account, prefix)
	return api.SnapshotID(id), err
}

// FindKey is FindTaskOf all accounts for API keys, by the identifiers that are no secret; their
// leading letter is "k".
func (db keyTable) FindKey(ctx context.Context, prefix string) (api.KeyID, error) {
	id, err := db.find(ctx, "key", "api_key", "k", "", prefix)
	return api.KeyID(id), err
}

// maxPrefix is more than any identifier has, in bytes.
const maxPrefix = 64

// named bounds the matches that an error names.
const named = 5

func (db *database) find(ctx context.Context, what, table, letter, account, prefix string) (string, error) {
	if prefix == "" {
		return "", api.Errorf(api.KindInvalid, "the id of a %s is missing", what)
	}
	if len(prefix) > maxPrefix {
		return "", notFound(what, prefix)
	}
	// Ranges of the identifiers' own order, so that no character of the prefix
	// means anything but itself.
	query := `SELECT id FROM ` + table + ` WHERE (id >= ?1 AND id < ?2 OR id >= ?3 AND id < ?4) AND (?6 = '' OR account = ?6) ORDER BY id LIMIT ?5`
	scan := func(s scanner) (id string, err error) { return id, s.Scan(&id) }
	matches, err := list(ctx, db.read, what+" ids", scan, query,
		prefix, after(prefix), letter+prefix, after(letter+prefix), named+1, account)
	if err != nil {
		return "", err
	}
	switch len(matches) {
	case 0:
		return "", notFound(what, prefix)
	case 1:
		return matches[0], nil
	}
	for _, id := range matches {
		if id == prefix {
			return id, nil
		}
	}
	more := ""
	if len(matches) > named {
		matches, more = matches[:named], " and more"
	}
	return "", api.Errorf(api.KindInvalid, "%s %q is ambiguous: %s%s", what, prefix, strings.Join(matches, ", "), more).
		WithHint("give more characters of the id")
}

// after is the least string above everything that begins with prefix, which is
// not empty. An identifier has no byte 0xFF, so such a prefix matches nothing
// and any bound will do.
func after(prefix string) string {
	b := []byte(prefix)
	if last := len(b) - 1; b[last] < 0xFF {
		b[last]++
	}
	return string(b)
}
