package access

import (
	"context"
	"strings"

	"hortus.dev/api"
)

// Keys says which key a text is.
type Keys interface {
	// Verify gives KindUnauthenticated, always in the same words, for what is none.
	Verify(ctx context.Context, presented string) (api.Key, error)
}

// Porter says who knocks.
type Porter struct {
	keys  Keys
	rates *Rates
}

// NewPorter asks keys, and bounds how often each may ask.
func NewPorter(keys Keys, rates *Rates) *Porter { return &Porter{keys, rates} }

// Authenticate gives who presents a key. It asks for each request: a key that is
// revoked is not known from then on. KindExhausted says that the key asks too often.
func (p *Porter) Authenticate(ctx context.Context, presented string) (api.Principal, error) {
	k, err := p.keys.Verify(ctx, presented)
	if err != nil {
		return api.Principal{}, err
	}
	who := api.Principal{Account: k.Account, Key: k.ID, Role: k.Role, Ceilings: k.Ceilings}
	if err := p.rates.request(who); err != nil {
		return api.Principal{}, err
	}
	return who, nil
}

// caller gives who asks; KindUnauthenticated for nobody, and for a principal that
// makes no sense.
func caller(ctx context.Context) (api.Principal, error) {
	p := api.PrincipalOf(ctx)
	if p.Role == api.RoleAdmin || p.Role == api.RoleUser && p.Account != "" {
		return p, nil
	}
	return api.Principal{}, api.Errorf(api.KindUnauthenticated, "nobody is asking: the request has no API key").
		WithHint("send one in the header X-API-KEY, or as Authorization: Bearer KEY")
}

// admin gives who asks, who must be an admin. what says what they are about to do.
func admin(ctx context.Context, what string) error {
	p, err := caller(ctx)
	if err == nil && p.Role != api.RoleAdmin {
		err = denied(what)
	}
	return err
}

func denied(what string) error {
	return api.Errorf(api.KindDenied, "%s is for the operator: this API key is a user's", what).
		WithHint("use the daemon's own socket on its machine, or a key with the role %s", api.RoleAdmin)
}

// absent is the error for what is not there, or not for this caller. The words are
// the store's.
func absent(what, id string) error {
	return api.Errorf(api.KindNotFound, "there is no %s %.64q", what, id)
}

// local refuses what would have the daemon read or write its host's files by a name
// that the caller chose. That is for whoever can open the daemon's socket, who could
// read or write them anyway: no key may.
func local(p api.Principal, models ...string) error {
	if p.Key == "" && p.Role == api.RoleAdmin {
		return nil
	}
	for _, m := range models {
		if strings.HasPrefix(m, "replay:") {
			return api.Errorf(api.KindDenied, "the model %.60q is a file of the daemon's machine, which no API key may name", m).
				WithHint("use the daemon's own socket on its machine")
		}
	}
	return nil
}
