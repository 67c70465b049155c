package access

import (
	"context"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// LocalKeys has the key of a person at the daemon's machine, who has none.
type LocalKeys interface {
	Local(ctx context.Context) (api.Key, error)
}

// Tickets makes what signs in a browser with a key, once.
type Tickets interface {
	Ticket(key api.KeyID) (secret string, ends time.Time)
}

// Console guards the links that sign in a browser to the console.
type Console struct {
	keys    LocalKeys
	tickets Tickets
	open    func() (url string, err error)
}

// NewConsole guards them. open returns where the console is.
func NewConsole(keys LocalKeys, tickets Tickets, open func() (url string, err error)) *Console {
	return &Console{keys, tickets, open}
}

// Link returns a link that signs in a browser with the key of the caller, who must be an admin. A caller on the
// daemon's socket has no key: the browser gets that of the machine, with the rights of an admin's key, which are fewer than those of the socket.
func (c *Console) Link(ctx context.Context) (admin.ConsoleLink, error) {
	if err := administrator(ctx, "opening the console without a key"); err != nil {
		return admin.ConsoleLink{}, err
	}
	p, err := caller(ctx)
	key := p.Key
	if err == nil && key == "" {
		var k api.Key
		k, err = c.keys.Local(ctx)
		key = k.ID
	}
	var url string
	if err == nil {
		url, err = c.open()
	}
	if err != nil {
		return admin.ConsoleLink{}, err
	}
	secret, ends := c.tickets.Ticket(key)
	return admin.ConsoleLink{URL: url + "/#/sign-in/" + secret, ExpiresAt: ends}, nil
}
