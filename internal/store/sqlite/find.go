package sqlite

import (
	"context"
	"strings"

	"hortus.dev/api"
)

// FindTaskOf implements store.Store.
func (db taskTable) FindTaskOf(ctx context.Context, account, prefix string) (api.TaskID, error) {
	id, err := db.find(ctx, "task", "task", "t", account, prefix)
	return api.TaskID(id), err
}

// FindSandbox implements store.Store.
func (db sandboxTable) FindSandbox(ctx context.Context, prefix string) (api.SandboxID, error) {
	return db.FindSandboxOf(ctx, "", prefix)
}

// FindSandboxOf implements store.Store.
func (db sandboxTable) FindSandboxOf(ctx context.Context, account, prefix string) (api.SandboxID, error) {
	if err := db.ahead.flush(ctx); err != nil {
		return "", err
	}
	id, err := db.find(ctx, "sandbox", "sandbox", "i", account, prefix)
	return api.SandboxID(id), err
}

// FindSnapshot implements store.Store.
func (db snapshotTable) FindSnapshot(ctx context.Context, prefix string) (api.SnapshotID, error) {
	return db.FindSnapshotOf(ctx, "", prefix)
}

// FindSnapshotOf implements store.Store.
func (db snapshotTable) FindSnapshotOf(ctx context.Context, account, prefix string) (api.SnapshotID, error) {
	id, err := db.find(ctx, "snapshot", "snapshot", "s", account, prefix)
	return api.SnapshotID(id), err
}

// FindKey implements store.Store.
func (db keyTable) FindKey(ctx context.Context, prefix string) (api.KeyID, error) {
	id, err := db.find(ctx, "key", "api_key", "k", "", prefix)
	return api.KeyID(id), err
}

// maxPrefix is the maximum length of a prefix, in bytes; identifiers are shorter.
const maxPrefix = 64

// maxNamedMatches is the maximum number of matches in an error.
const maxNamedMatches = 5

func (db *database) find(ctx context.Context, what, table, letter, account, prefix string) (string, error) {
	if prefix == "" {
		return "", api.Errorf(api.KindInvalid, "the id of a %s is missing", what)
	}
	if len(prefix) > maxPrefix {
		return "", notFound(what, prefix)
	}
	// Ranges instead of a pattern, so that no character of the prefix is special.
	query := `SELECT id FROM ` + table + ` WHERE (id >= ?1 AND id < ?2 OR id >= ?3 AND id < ?4) AND (?6 = '' OR account = ?6) ORDER BY id LIMIT ?5`
	scan := func(s scanner) (id string, err error) { return id, s.Scan(&id) }
	matches, err := list(ctx, db.read, what+" ids", scan, query,
		prefix, prefixEnd(prefix), letter+prefix, prefixEnd(letter+prefix), maxNamedMatches+1, account)
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
	if len(matches) > maxNamedMatches {
		matches, more = matches[:maxNamedMatches], " and more"
	}
	return "", api.Errorf(api.KindInvalid, "%s %q is ambiguous: %s%s", what, prefix, strings.Join(matches, ", "), more).
		WithHint("give more characters of the id")
}

// prefixEnd returns the least string above all strings that begin with prefix, which is
// not empty. An identifier has no byte 0xFF, so the result does not matter for a prefix
// that ends in one.
func prefixEnd(prefix string) string {
	b := []byte(prefix)
	if last := len(b) - 1; b[last] < 0xFF {
		b[last]++
	}
	return string(b)
}
