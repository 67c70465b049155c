package archive

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"hortus.dev/internal/platform/lazyregexp"
)

// The limits of what an archive may claim: the size of its record and of a tree in bytes, and
// the tree's entries.
const (
	maxRecord  = 4 << 10
	maxFiles   = 1 << 40
	maxEntries = 10_000_000
)

// record describes an archive.
type record struct {
	// Blob is the name of the archive.
	Blob string `json:"blob"`
	// Bytes is the size of the archive, SHA256 its hash.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Content
	// Owners says that it has the owners of root's files.
	Owners bool `json:"owners"`
}

var (
	nameForm = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,99}$`)
	partForm = lazyregexp.New(`^-[0-9a-f]{16}\.tar\.zst$`)
)

// newBlob returns a name for an archive that no other archive has: two hosts that save one tree
// at the same time do not write to the same blob.
func newBlob(name string) string {
	b := make([]byte, 8)
	rand.Read(b)
	return name + "-" + hex.EncodeToString(b) + ".tar.zst"
}

// recordOf is the name of the record of an archive.
func recordOf(name string) string { return name + ".json" }

func parse(name string, from io.Reader) (r record, err error) {
	b, err := io.ReadAll(io.LimitReader(from, maxRecord+1))
	if err != nil {
		return r, err
	}
	if len(b) > maxRecord {
		return r, fmt.Errorf("longer than %d bytes", maxRecord)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, err
	}
	if rest, ok := strings.CutPrefix(r.Blob, name); !ok || !partForm.MatchString(rest) {
		return r, fmt.Errorf("it names %.100q, which is no archive of it", r.Blob)
	}
	if r.Bytes <= 0 || r.Files < 0 || r.Files > maxFiles || r.Entries < 0 || r.Entries > maxEntries {
		return r, errors.New("its numbers do not make sense")
	}
	return r, nil
}
