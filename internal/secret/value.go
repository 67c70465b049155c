package secret

import (
	"context"

	"hortus.dev/api"
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

// Key returns the value of a secret of the operator that the daemon itself uses: the key of a model
// or the token of a forge. No door may call it. A value that was set anew is returned by the next
// call. KindUnauthenticated if there is no such secret; otherwise the kinds of Value.
func (s *Secrets) Key(ctx context.Context, name string) (string, error) {
	row, err := s.cfg.Rows.Secret(ctx, "", name)
	if api.KindOf(err) == api.KindNotFound {
		return "", api.Errorf(api.KindUnauthenticated, "the operator has no secret %.80q", name).
			WithHint("set it on the daemon's machine: hortus secret set %s --daemon", name)
	}
	if err != nil {
		return "", err
	}
	if row.Signer != secrets.Plain {
		return "", api.Errorf(api.KindInvalid, "secret %s is neither a key nor a token: requests are signed with it (%s)", name, row.Signer).
			WithHint("set another one: hortus secret set NAME --daemon")
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
