package secret

import (
	"context"
	"encoding/json"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Rotated replaces the refresh token was in the stored value of a secret whose signer is OAuth by
// token: its server has made the old one invalid. A value that was set meanwhile is newer and stays
// as it is. What cannot be replaced is logged; the proxy keeps the new token in memory.
func (s *Secrets) Rotated(ctx context.Context, account, name, was, token string) {
	if err := s.rotate(ctx, account, name, was, token); err != nil {
		s.cfg.Logger.Error("a new refresh token could not be stored; the secret has to be set again once the daemon ends", "secret", name, "account", account, "error", err)
	}
}

func (s *Secrets) rotate(ctx context.Context, account, name, was, token string) error {
	for {
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
		next, err := withToken(value, was, token)
		if err != nil || next == "" {
			return err
		}
		// Another value may be stored by now. It is read, and decided anew.
		if err = s.cfg.Rows.RenewSecret(ctx, account, name, value, next, s.now()); api.KindOf(err) != api.KindConflict {
			return err
		}
	}
}

// withToken returns a value with another refresh token, or "" if it has not the one that it was.
func withToken(value, was, token string) (string, error) {
	var fields map[string]json.RawMessage
	var has struct{ RefreshToken string }
	if json.Unmarshal([]byte(value), &fields) != nil || json.Unmarshal([]byte(value), &has) != nil {
		return "", api.Errorf(api.KindInvalid, "its value is not a JSON object")
	}
	if has.RefreshToken != was {
		return "", nil
	}
	text, err := json.Marshal(token)
	if err != nil {
		return "", api.Errorf(api.KindInvalid, "the new token is not text")
	}
	for key := range fields {
		if strings.EqualFold(key, "refreshToken") {
			delete(fields, key)
		}
	}
	fields["refreshToken"] = text
	out, err := json.Marshal(fields)
	if err != nil {
		return "", api.Errorf(api.KindInternal, "write the value of a secret")
	}
	return string(out), nil
}
