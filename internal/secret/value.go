package secret

import (
	"context"

	"hortus.dev/api/secrets"
)

// Value returns the value of a secret of an account. It is for the egress proxy: no door may call
// it. KindNotFound if there is no such secret, KindConflict if a stored value cannot be decrypted,
// KindUnavailable if the source cannot be read, KindInvalid for a value that cannot be used.
func (s *Secrets) Value(ctx context.Context, account, name string) (string, error) {
	row, err := s.cfg.Rows.Secret(ctx, account, name)
	if err != nil {
		return "", err
	}
	return s.value(ctx, row)
}

// value returns the value of a row.
func (s *Secrets) value(ctx context.Context, row secrets.Secret) (string, error) {
	switch row.Source {
	case secrets.Stored:
		value, err := s.cfg.Rows.SecretValue(ctx, row.Account, row.Name)
		if err != nil {
			return "", err
		}
		return usable(row, value)
	case secrets.Command:
		return s.commands.value(ctx, row)
	}
	return s.read(row)
}
