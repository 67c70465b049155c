package secret

import (
	"context"
	"encoding/json"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Rotated replaces the refresh token in the stored value of a secret whose signer is SecretOAuth: its server has made the
// old one invalid. What cannot be replaced is logged; the proxy keeps the new token in memory.
func (s *Secrets) Rotated(ctx context.Context, account, name, token string) {
	if err := s.rotate(ctx, account, name, token); err != nil {
		s.cfg.Logger.Error("a new refresh token could not be stored; the secret has to be set again once the daemon ends", "secret", name, "account", account, "error", err)
	}
}

func (s *Secrets) rotate(ctx context.Context, account, name, token string) error {
	row, err := s.cfg.Rows.Secret(ctx, account, name)
	if err != nil {
		return err
	}
	if row.Source != secrets.Stored || row.Signer != secrets.OAuth {
		return api.Errorf(api.KindConflict, "its value is not stored here")
	}
	value, err := s.cfg.Rows.SecretValue(ctx, account, name)
	if err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(value), &fields) != nil {
		return api.Errorf(api.KindInvalid, "its value is not a JSON object")
	}
	if fields["refreshToken"], err = json.Marshal(token); err != nil {
		return api.Errorf(api.KindInvalid, "the new token is not text")
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return api.Errorf(api.KindInternal, "write the value of a secret")
	}
	row.UpdatedAt, row.Version = s.now(), 0
	_, err = s.cfg.Rows.PutSecret(ctx, row, string(out), secrets.MaxSecrets)
	return err
}
