package secret

import (
	"context"
	"crypto/rand"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// newID makes the ID of a secret: 20 characters, of which 16 are random.
func newID() string { return "sec_" + strings.ToLower(rand.Text())[:16] }

// maxReads is how often a secret is read that is replaced at the same time.
const maxReads = 5

// HeaderValue returns the value of a secret of an account for the header rule of a sandbox. Like
// Value, it is for the egress proxy alone. KindDenied if the secret is not for headers; otherwise
// the kinds of Value.
func (s *Secrets) HeaderValue(ctx context.Context, account, name string) (string, error) {
	row, err := s.headerRow(ctx, account, name)
	for range maxReads {
		if err != nil {
			return "", err
		}
		value, verr := s.value(ctx, row)
		// The value is that of the row only if the row is still the same: another secret of
		// this name may not be for headers.
		var now secrets.Secret
		if now, err = s.headerRow(ctx, account, name); err == nil && now.ID == row.ID && now.Version == row.Version {
			return value, verr
		}
		row = now
	}
	if err != nil {
		return "", err
	}
	return "", api.Errorf(api.KindUnavailable, "secret %s is replaced again and again", name)
}

// headerRow returns a secret that is for headers.
func (s *Secrets) headerRow(ctx context.Context, account, name string) (secrets.Secret, error) {
	row, err := s.cfg.Rows.Secret(ctx, account, name)
	if err == nil && !row.ForHeaders {
		err = api.Errorf(api.KindDenied, "secret %s is not for headers", name)
	}
	return row, err
}
