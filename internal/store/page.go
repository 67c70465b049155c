package store

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

// Cursor is a place in a list, which is the newest first: directly after the row with
// this identifier. The zero Cursor is the beginning.
type Cursor struct {
	At time.Time // when the row was created or started
	ID string
}

// IsZero says whether the cursor is the beginning of a list.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// Token is the cursor as clients carry it, who do not look into it; "" for the
// beginning.
func (c Cursor) Token() string {
	if c.IsZero() {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.At.UnixMicro(), 36) + "." + c.ID))
}

// ParseCursor reads a token. KindInvalid for one that no list gave.
func ParseCursor(token string) (Cursor, error) {
	bad := api.Errorf(api.KindInvalid, "the cursor %.60q is none that a list gave", token).
		WithHint("leave it out to begin at the beginning of the list")
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

// MaxPageBytes bounds the rows of one page as they are stored. The row that goes over
// it is the last one of its page.
const MaxPageBytes = 4 << 20
