package secret

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
)

// Key returns the value of a secret of the operator that the daemon itself uses: the key of a model
// or the token of a forge. No door may call it. A value that was set anew is returned by the next
// call. With a purpose, such as "model", it is for one request, to address, and recorded as a use,
// for the account and the task of ctx; without one it is only looked whether there is a value.
// KindUnauthenticated if there is no such secret; otherwise the kinds of Value.
func (s *Secrets) Key(ctx context.Context, name, purpose, address string) (string, error) {
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
	value, err := s.value(ctx, row)
	if err == nil && purpose != "" {
		s.Record(ctx, ownUse(ctx, name, purpose, address))
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
