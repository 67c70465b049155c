// Package openidserver is a provider of OpenID Connect for tests: discovery, keys, authorization with PKCE, and tokens.
//
//	p := openidserver.New(t, openidserver.Config{ClientID: "hortus", Secret: "...", Redirect: url + "/console/oidc/callback"})
//	p.Claims(map[string]any{"sub": "1", "email": "ada@example.org", "email_verified": true, "groups": []string{"team"}})
//
// It signs in everybody at once, as the person of the claims. It checks what a provider must: client, redirect URI, code and verifier. It ends with
// the test.
package openidserver
