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

// Open takes the secret from a file of [secretLen] bytes that only its owner can
// read, and makes one where there is none. A file of another length, or one that
// others can read, is refused: tokens of a known secret protect nothing.
func Open(file string) (*Minter, error) {
	m, err := read(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if err := create(file); err != nil {
		return nil, api.Errorf(api.KindInternal, "make the secret of tokens: %w", err)
	}
	// Whoever came first wrote it.
	if m, err = read(file); errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindInternal, "the secret of tokens is gone: %w", err)
	}
	return m, err
}

func read(file string) (*Minter, error) {
	// What is no plain file is not even opened: a pipe would wait for its writer.
	if st, err := os.Lstat(file); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, api.Errorf(api.KindInternal, "the secret of tokens: %w", err)
	} else if !st.Mode().IsRegular() {
		return nil, unusable(file, "it is not a plain file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the secret of tokens: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "the secret of tokens: %w", err)
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
		return nil, api.Errorf(api.KindInternal, "the secret of tokens: %w", err)
	}
	return m, nil
}

func unusable(file, why string) error {
	return api.Errorf(api.KindDenied, "the secret of tokens in %s is not used: %s", file, why).
		WithHint("remove the file: another is made, and every sandbox gets another token")
}

// create writes a fresh secret, whole or not at all, and leaves one that is there
// already.
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

// Envd gives what opens a sandbox's guest: its commands and files. It is 64
// lower-case hexadecimal digits, the same for the same id for ever.
func (m *Minter) Envd(id string) string { return m.make("envd:", id) }

// Traffic gives what opens the ports of a sandbox whose ports are private, in the
// same form. Neither token tells anything of the other.
func (m *Minter) Traffic(id string) string { return m.make("traffic:", id) }

// CheckEnvd says whether got is what Envd gives for the id. How long it takes does
// not depend on how much of got is right.
func (m *Minter) CheckEnvd(id, got string) bool { return same(m.Envd(id), got) }

// CheckTraffic does the same for Traffic.
func (m *Minter) CheckTraffic(id, got string) bool { return same(m.Traffic(id), got) }

func (m *Minter) make(purpose, id string) string {
	h := hmac.New(sha256.New, m.secret[:])
	io.WriteString(h, purpose)
	io.WriteString(h, id)
	return hex.EncodeToString(h.Sum(nil))
}

func same(want, got string) bool { return hmac.Equal([]byte(want), []byte(got)) }
