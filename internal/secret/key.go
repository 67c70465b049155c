package secret

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// KeyFor is Key for one request of the daemon to an address, for a purpose such as "model". It is
// recorded as a use, for the account and the task of ctx. Without a purpose it is Key: it is only
// looked whether there is a value.
func (s *Secrets) KeyFor(ctx context.Context, name, purpose, address string) (string, error) {
	value, err := s.Key(ctx, name)
	if err == nil && purpose != "" {
		s.Record(ctx, ownUse(ctx, name, purpose, address))
	}
	return value, err
}

// KeyOf is the value of a secret of an account, for one request of the daemon to an address, for a purpose such as "git". It is
// recorded as a use. KindUnauthenticated if there is none.
func (s *Secrets) KeyOf(ctx context.Context, account, name, purpose, address string) (string, error) {
	row, err := s.cfg.Rows.Secret(ctx, account, name)
	if api.KindOf(err) == api.KindNotFound {
		return "", api.Errorf(api.KindUnauthenticated, "there is no secret %.80q", name).WithHint("set it: hortus secret set %s --daemon", name)
	}
	if err != nil {
		return "", err
	}
	if row.Signer != secrets.Plain {
		return "", signed(row)
	}
	value, err := s.value(ctx, row)
	if err == nil {
		use := ownUse(ctx, name, purpose, address)
		use.Account = account
		s.Record(ctx, use)
	}
	return value, err
}

// ownUse is the record of a use by the daemon itself.
func ownUse(ctx context.Context, name, purpose, address string) secrets.Use {
	out := secrets.Use{Secret: name, Purpose: purpose, For: api.PrincipalOf(ctx).Account, Task: api.TaskOf(ctx)}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return out
	}
	out.Scheme, out.Host, out.Path = strings.ToLower(u.Scheme), u.Hostname(), u.EscapedPath()
	switch port, err := strconv.Atoi(u.Port()); {
	case err == nil:
		out.Port = port
	case out.Scheme == "https":
		out.Port = 443
	case out.Scheme == "http":
		out.Port = 80
	}
	return out
}
