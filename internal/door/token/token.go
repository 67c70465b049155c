package token

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/api"
)

// secretLen is the length of the secret, in bytes.
const secretLen = 32

// Minter makes the tokens of sandboxes and checks those that callers present.
type Minter struct{ secret [secretLen]byte }

// Open reads the secret from a file of [secretLen] bytes that only its owner can read, and
// creates the file if it does not exist. A file of another length, or one that
// others can read, is refused: tokens of a known secret protect nothing.
func Open(file string) (*Minter, error) {
	m, err := read(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if err := create(file); err != nil {
		return nil, api.Errorf(api.KindInternal, "create the secret of tokens: %w", err)
	}
	// Another process may have created it first.
	if m, err = read(file); errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindInternal, "the secret of tokens was removed: %w", err)
	}
	return m, err
}

func read(file string) (*Minter, error) {
	// Only a regular file is opened: a pipe would block.
	if st, err := os.Lstat(file); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, api.Errorf(api.KindInternal, "read the secret of tokens: %w", err)
	} else if !st.Mode().IsRegular() {
		return nil, unusable(file, "it is not a plain file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "read the secret of tokens: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "read the secret of tokens: %w", err)
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, unusable(file, "it is not a plain file")
	case st.Mode().Perm()&0o077 != 0:
		return nil, unusable(file, "others than its owner can read it")
	case st.Size() != secretLen:
		return nil, unusable(file, "it has not 32 bytes")
	}
	m := &Minter{}
	if _, err := io.ReadFull(f, m.secret[:]); err != nil {
		return nil, api.Errorf(api.KindInternal, "read the secret of tokens: %w", err)
	}
	return m, nil
}

func unusable(file, why string) error {
	return api.Errorf(api.KindDenied, "the secret of tokens in %s is not used: %s", file, why).
		WithHint("remove the file: a new secret is created, and every sandbox gets a new token")
}

// create writes a new secret atomically; an existing file stays.
func create(file string) error {
	var secret [secretLen]byte
	rand.Read(secret[:])
	// CreateTemp makes it readable to its owner alone.
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(secret[:])
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, does not replace what another wrote meanwhile.
	if err := os.Link(f.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Envd returns the token of a sandbox's guest: its commands and files. It has 64 lower-case
// hexadecimal digits and is always the same for an id.
func (m *Minter) Envd(id string) string { return m.make("envd:", id) }

// Traffic returns the token of a sandbox's private ports, in the same form. Neither token can
// be derived from the other.
func (m *Minter) Traffic(id string) string { return m.make("traffic:", id) }

// CheckEnvd reports whether got is the token of Envd, in constant time.
func (m *Minter) CheckEnvd(id, got string) bool { return same(m.Envd(id), got) }

// CheckTraffic reports whether got is the token of Traffic, in constant time.
func (m *Minter) CheckTraffic(id, got string) bool { return same(m.Traffic(id), got) }

func (m *Minter) make(purpose, id string) string {
	h := hmac.New(sha256.New, m.secret[:])
	io.WriteString(h, purpose)
	io.WriteString(h, id)
	return hex.EncodeToString(h.Sum(nil))
}

func same(want, got string) bool { return hmac.Equal([]byte(want), []byte(got)) }
