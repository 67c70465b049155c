package secret

import (
	"context"
	"maps"
	"slices"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Value returns the value of a secret of an account. It is for the egress proxy: no server may call
// it. KindNotFound if there is no such secret, KindConflict if a stored value cannot be decrypted,
// KindUnavailable if the source cannot be read, KindInvalid for a value that cannot be used.
func (s *Secrets) Value(ctx context.Context, account, name string) (string, error) {
	row, err := s.cfg.Rows.Secret(ctx, account, name)
	if err != nil {
		return "", err
	}
	return s.value(ctx, row)
}

// Key returns the value of a secret of the operator that the daemon itself uses: the key of a model
// or the token of a forge. No server may call it. A value that was set anew is returned by the next
// call. KindUnauthenticated if there is no such secret; otherwise the kinds of Value.
func (s *Secrets) Key(ctx context.Context, name string) (string, error) {
	row, err := s.key(ctx, name)
	if err != nil {
		return "", err
	}
	return s.value(ctx, row)
}

// Warn logs a warning, with what to do, for each secret that is missing or cannot be a key. names
// are secrets of the operator by who needs them, such as the hosts of forges. No value is read.
func (s *Secrets) Warn(ctx context.Context, what string, names map[string]string) {
	for _, of := range slices.Sorted(maps.Keys(names)) {
		if _, err := s.key(ctx, names[of]); err != nil {
			s.cfg.Logger.Warn("the configuration names a secret that cannot be used", "secret", names[of], what, of, "error", err, "fix", api.HintOf(err))
		}
	}
}

// key returns the row of a secret that the daemon itself uses.
func (s *Secrets) key(ctx context.Context, name string) (secrets.Secret, error) {
	row, err := s.cfg.Rows.Secret(ctx, "", name)
	if api.KindOf(err) == api.KindNotFound {
		return row, api.Errorf(api.KindUnauthenticated, "the operator has no secret %.80q", name).
			WithHint("set it on the daemon's machine: hortus secret set %s --daemon", name)
	}
	if err != nil {
		return row, err
	}
	if row.Signer != secrets.Plain {
		return row, signed(row)
	}
	return row, nil
}

// signed is the error for a secret whose value is not sent.
func signed(row secrets.Secret) error {
	return api.Errorf(api.KindInvalid, "secret %s is neither a key nor a token: requests are signed with it (%s)", row.Name, row.Signer).
		WithHint("set another one: hortus secret set NAME --daemon")
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
