// Package preview is what browsers need to see the ports of sandboxes: addresses, tickets and cookies for private
// ports, and the page that says why nothing is there.
//
//	p, err := preview.New(preview.Config{Scheme: "https", Domain: "box.example", Tokens: tokens})
//	link, err := p.Link(sandbox, 3000)       // https://3000-ID.box.example/?hortus-ticket=...
//	...
//	if preview.HasTicket(r) { p.Redeem(w, r, sandbox, 3000) }
//	ok := p.Allows(r, sandbox.ID, 3000)      // by the cookie
//
// A ticket works once, for a few minutes. It is exchanged for a cookie of that one host name, port and sandbox, which
// pages of other names cannot use and programs in the sandbox never see.
//
// The package must not know how a port is reached. Tickets are kept in memory and end with the daemon; cookies are
// verified by their value and are kept nowhere. It starts no goroutine.
package preview
