package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// read returns the value of a secret from a variable or a file.
func (s *Secrets) read(row secrets.Secret) (string, error) {
	switch row.Source {
	case secrets.Variable:
		value := s.cfg.Getenv(row.From)
		if value == "" {
			return "", api.Errorf(api.KindUnavailable, "secret %s: the daemon has no environment variable %s", row.Name, row.From).
				WithHint("set it in the environment of the daemon and restart the daemon, or store the value: hortus secret set %s", row.Name)
		}
		return usable(row, value)
	case secrets.File:
		value, err := readFile(row.From)
		if err != nil {
			return "", api.Errorf(api.KindUnavailable, "secret %s: file %s: %w", row.Name, row.From, err).
				WithHint("it must be a regular file of at most %d bytes that the daemon can read", secrets.MaxValue)
		}
		return usable(row, value)
	}
	return "", api.Errorf(api.KindInternal, "secret %s has the unknown source %.40q", row.Name, string(row.Source))
}

// readFile reads a file. It does not follow a link in the last component, and does not block on a
// pipe. One line break at the end is cut.
func readFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) {
		return "", errors.New("it is a symbolic link")
	}
	if err != nil {
		var at *fs.PathError // the caller names the path
		if errors.As(err, &at) {
			err = at.Err
		}
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	got := readAtMost(f, maxRead)
	if got.err != nil {
		return "", got.err
	}
	return cutLine(string(got.out)), nil
}

// maxRead is the maximum size of a file or an output: a value with a line break.
const maxRead = secrets.MaxValue + 2

var errTooLong = errors.New("it is too long")

// cutLine removes one line break at the end.
func cutLine(s string) string {
	s, cut := strings.CutSuffix(s, "\n")
	if cut {
		s = strings.TrimSuffix(s, "\r")
	}
	return s
}

// usable returns a value as it is used, or refuses it. The JSON of a signer may have several lines.
func usable(row secrets.Secret, value string) (string, error) {
	if row.Signer != secrets.Plain {
		var one bytes.Buffer
		if json.Compact(&one, []byte(value)) == nil {
			value = one.String()
		}
	}
	if err := secrets.CheckValue(row.Signer, value); err != nil {
		return "", api.Errorf(api.KindInvalid, "secret %s: %w", row.Name, err)
	}
	return value, nil
}
