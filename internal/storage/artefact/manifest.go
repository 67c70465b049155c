package artefact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"hortus.dev/api"
)

// The limits of what a manifest may claim.
const (
	manifestVersion = 1
	maxManifest     = 64 << 20 // its size in bytes, before it is compressed
	maxFiles        = 65
	maxName         = 128
	maxChunks       = 1 << 20
	// overhead is what an object may have beyond what is in it.
	overhead = 4 << 10
)

// manifest describes an artefact.
type manifest struct {
	Version int `json:"version"`
	// Label is what the artefact is of.
	Label  string  `json:"label"`
	Files  []file  `json:"files"`
	Chunks []chunk `json:"chunks"`
}

// file is a file of an artefact. What no extent has are zeros.
type file struct {
	Name    string   `json:"name"`
	Bytes   int64    `json:"bytes"`
	Extents []extent `json:"extents,omitempty"`
}

// extent says where pages of a file are: {the first page in the file, the number of the chunk, the first page in the chunk, the number of
// pages}.
type extent [4]int64

// chunk is an object with pages.
type chunk struct {
	// SHA256 is that of the object, Bytes its size.
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Pages  int64  `json:"pages"`
}

func pagesOf(bytes int64) int64 { return (bytes + pageSize - 1) / pageSize }

// fileName reports whether a name can be that of a file: it is no path, and not hidden.
func fileName(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '.' {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// parse reads a manifest of files that have at most limit bytes together. It is untrusted.
func parse(b []byte, limit int64) (m manifest, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("it cannot be read: %.200w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return m, errors.New("it has trailing data")
	}
	if m.Version != manifestVersion {
		return m, fmt.Errorf("it has version %d; this build supports version %d", m.Version, manifestVersion)
	}
	if len(m.Files) > maxFiles || len(m.Chunks) > maxChunks {
		return m, fmt.Errorf("it has %d files and %d chunks", len(m.Files), len(m.Chunks))
	}
	for i, c := range m.Chunks {
		if sum, err := hex.DecodeString(c.SHA256); err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != c.SHA256 {
			return m, fmt.Errorf("chunk %d has no digest", i)
		}
		if c.Pages <= 0 || c.Pages > maxChunk/pageSize || c.Bytes <= 0 || c.Bytes > c.Pages*pageSize+overhead {
			return m, fmt.Errorf("chunk %d has %d bytes for %d pages", i, c.Bytes, c.Pages)
		}
	}
	var total int64
	for i, f := range m.Files {
		if !fileName(f.Name) || i > 0 && m.Files[i-1].Name >= f.Name {
			return m, fmt.Errorf("file %d has the name %.100q, or is out of order", i, f.Name)
		}
		if f.Bytes < 0 || f.Bytes > limit-total {
			return m, fmt.Errorf("its files have more than the %d bytes that are expected", limit)
		}
		total += f.Bytes
		var next int64
		for _, e := range f.Extents {
			page, number, at, n := e[0], e[1], e[2], e[3]
			if page < next || n <= 0 || n > maxChunk/pageSize || page > pagesOf(f.Bytes)-n {
				return m, fmt.Errorf("file %s has an extent outside of it, or two for a page", f.Name)
			}
			if number < 0 || number >= int64(len(m.Chunks)) || at < 0 || at > m.Chunks[number].Pages-n {
				return m, fmt.Errorf("file %s has an extent outside of its chunk", f.Name)
			}
			next = page + n
		}
	}
	return m, nil
}

// manifest reads the manifest of an artefact.
func (s *Store) manifest(ctx context.Context, r Ref, label string, limit int64) (m manifest, err error) {
	if !r.Valid() {
		return m, badRef(r)
	}
	object, err := s.read(ctx, s.manifestBlob(r), maxManifest)
	if err != nil {
		return m, err
	}
	plain, err := s.open(object, string(r), manifestKind, maxManifest)
	if err == nil {
		m, err = parse(plain, limit)
	}
	if err == nil && label != "" && m.Label != label {
		err = fmt.Errorf("it is that of %.100q", m.Label)
	}
	if err != nil {
		return m, api.Errorf(api.KindInvalid, "the manifest %.16s: %w", string(r), err)
	}
	return m, nil
}

// The kinds of objects.
const (
	manifestKind = "manifest"
	chunkKind    = "chunk"
)
