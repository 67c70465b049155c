package sqlite

import (
	"context"
	"strings"

	"hortus.dev/api"
)

// maxPrefix is the maximum length of a prefix, in bytes; identifiers are shorter.
const maxPrefix = 64

// maxNamedMatches is the maximum number of matches in an error.
const maxNamedMatches = 5

// find returns the identifier that begins with a prefix, with or without its letter.
func (t *table[T, ID]) find(ctx context.Context, account, prefix string) (ID, error) {
	if prefix == "" {
		return "", api.Errorf(api.KindInvalid, "the id of a %s is missing", t.what)
	}
	if len(prefix) > maxPrefix {
		return "", notFound(t.what, prefix)
	}
	if err := t.ahead.flush(ctx); err != nil {
		return "", err
	}
	// Ranges instead of a pattern, so that no character of the prefix is special.
	query := `SELECT id FROM ` + t.name + ` WHERE (id >= ?1 AND id < ?2 OR id >= ?3 AND id < ?4) AND (?6 = '' OR account = ?6) ORDER BY id LIMIT ?5`
	matches, err := list(ctx, t.db.read, t.what+" ids", scanValue[string], query,
		prefix, prefixEnd(prefix), t.letter+prefix, prefixEnd(t.letter+prefix), maxNamedMatches+1, account)
	if err != nil {
		return "", err
	}
	switch len(matches) {
	case 0:
		return "", notFound(t.what, prefix)
	case 1:
		return ID(matches[0]), nil
	}
	for _, id := range matches {
		if id == prefix {
			return ID(id), nil
		}
	}
	more := ""
	if len(matches) > maxNamedMatches {
		matches, more = matches[:maxNamedMatches], " and more"
	}
	return "", api.Errorf(api.KindInvalid, "%s %q is ambiguous: %s%s", t.what, prefix, strings.Join(matches, ", "), more).
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
