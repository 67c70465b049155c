// Package signin keeps browsers signed in to the console.
//
//	s := signin.New(signin.Config{Rows: db, Verify: authenticator.Authenticate, Principal: authenticator.AuthenticateKey, ...})
//	s.ServeHTTP(w, r)                  // POST, GET and DELETE of Path
//	s.ServeOpenID(w, r)                // GET and POST of OpenIDPath
//	s.ServeCallback(w, r)              // GET of openid.CallbackPath
//	authenticate := s.Take(r)          // nil if the request is not one of a page that is signed in
//	principal, err := authenticate(ctx)
//
// A person signs in with an API key, with a ticket that works once, for a minute, or with a provider of OpenID Connect (package openid),
// which gives the person a key that nobody knows. The browser then has two secrets: a cookie,
// which no script can read, and a text that the page keeps in its storage and sends as the header [Header]. Neither is of use
// without the other. A cookie of 127.0.0.1 is sent to every port of that address, so a server on another port may see it, but not
// the storage of the page; a script that an attacker injects may read the storage, but not the cookie. The store has the hash of
// both together, and the ID of the key.
//
// A request of a session has the rights of its key, and counts for its rates: a session ends when its key is revoked, 12 hours
// after its last request, 7 days after its begin, and when the person signs out.
//
// A cookie counts only if the browser says that a page of the own origin makes the request: Origin is the own one, which is
// required for all methods that change something and for WebSockets, and Sec-Fetch-Site, if present, is same-origin. On a
// listener that only this machine reaches, the host must be an address, localhost, or that of the public URL: another name is
// one that an attacker made resolve to this machine (DNS rebinding).
//
// A sign-in with a provider has two such secrets too, so that it ends in the page in which it began. The provider sends the browser to a path
// that only leads to the console's page, which brings the answer in a request of its own: no cookie has to be sent for a page of another site.
//
// The package must not know what the requests are for, or how keys are stored. Tickets are kept in memory and end with the
// daemon. It starts no goroutine.
package signin
