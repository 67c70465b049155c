package store

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

// Cursor is a position in a list: after the row with this identifier. The zero Cursor is
// the beginning. Stores agree on its form, so that a client's cursor survives a change of the
// store.
type Cursor struct {
	At time.Time // when the row was created or started
	ID string    // an identifier, or a number in IDLen digits
}

// IsZero reports whether the cursor is the beginning of a list.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// Token encodes the cursor for clients, to which it is opaque; "" is the beginning.
func (c Cursor) Token() string {
	if c.IsZero() {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.At.UnixMicro(), 36) + "." + c.ID))
}

// ParseCursor decodes a token. KindInvalid for an invalid one.
func ParseCursor(token string) (Cursor, error) {
	bad := api.Errorf(api.KindInvalid, "the cursor %.60q is not valid", token).
		WithHint("omit it to start at the beginning of the list")
	if token == "" {
		return Cursor{}, nil
	}
	if len(token) > 100 {
		return Cursor{}, bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return Cursor{}, bad
	}
	at, id, ok := strings.Cut(string(b), ".")
	micros, err := strconv.ParseInt(at, 36, 64)
	if !ok || err != nil || len(id) != api.IDLen {
		return Cursor{}, bad
	}
	return Cursor{time.UnixMicro(micros).UTC(), id}, nil
}

// Page returns the limit of a page and where it begins.
func Page(p api.PageRequest) (limit int, after Cursor, err error) {
	if limit, err = p.Rows(); err != nil {
		return 0, after, err
	}
	after, err = ParseCursor(p.Cursor)
	return limit, after, err
}
