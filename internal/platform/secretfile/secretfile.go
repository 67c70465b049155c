package secretfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Len is the length of a secret in bytes.
const Len = 32

// UnusableError is the error for a file that others may know or that has another length: such
// a secret protects nothing.
type UnusableError struct {
	File, Reason string
	// Repair is the command that makes the file usable; empty if there is none.
	Repair string
}

// Error implements error.
func (e *UnusableError) Error() string { return e.File + " " + e.Reason }

// Open reads the secret from a file, and creates the file if it does not exist. Several
// processes that create it at the same time get the same secret.
func Open(file string) ([]byte, error) {
	secret, err := Read(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	if err := create(file); err != nil {
		return nil, fmt.Errorf("create a secret: %w", err)
	}
	return Read(file)
}

// Read reads the secret from a file. The error is fs.ErrNotExist if there is none.
func Read(file string) ([]byte, error) {
	// A pipe does not block the open.
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, &UnusableError{File: file, Reason: "is a symbolic link, not a plain file"}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch mode := st.Mode(); {
	case !mode.IsRegular():
		return nil, &UnusableError{File: file, Reason: "is not a plain file"}
	case st.Size() != Len:
		return nil, &UnusableError{File: file, Reason: fmt.Sprintf("has %d bytes, not %d", st.Size(), Len)}
	case mode.Perm()&0o077 != 0:
		return nil, &UnusableError{File: file, Reason: fmt.Sprintf("has mode %04o: other users than its owner have rights", mode.Perm()), Repair: "chmod 600 " + file}
	}
	secret := make([]byte, Len)
	_, err = io.ReadFull(f, secret)
	return secret, err
}

// create writes a new secret atomically. It keeps an existing file.
func create(file string) error {
	secret := make([]byte, Len)
	rand.Read(secret)
	// CreateTemp makes it readable to its owner alone.
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(secret)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, does not replace what another process wrote meanwhile.
	if err := os.Link(f.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
