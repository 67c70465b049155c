// Package openid signs in people with a provider of OpenID Connect, such as Keycloak or Google.
//
//	p, err := openid.New(openid.Config{Issuer: "https://id.example.org", ClientID: "hortus", PublicURL: "https://hortus.example.org", ...})
//	begun, err := p.Begin(ctx)       // the browser keeps begun.Cookie and begun.Page, and opens begun.URL
//	result, err := p.Finish(ctx, openid.Answer{Cookie: ..., Page: ..., State: ..., Code: ...})
//
// The flow is that of the authorization code, with PKCE. What a sign-in needs later (its state, its nonce and the verifier of PKCE) is
// encrypted in the browser's cookie, together with the hash of a text that only the storage of the console's page has. So a sign-in ends in
// the browser and the page in which it began, once, within ten minutes, and a flood of sign-ins costs no memory.
//
// A person has the account and the role of the first rule that one of the values of a claim matches. [Result.Denied] is set
// for a person whom the provider knows and who may not use Hortus, so that the caller can end what the person had.
//
// The metadata of the provider is read when it is needed, and again after ten minutes. The signature of a token must be one of the
// asymmetric algorithms that the metadata lists.
//
// The package must not know what a session or a key is. A [Provider] has no goroutine of its own. It notes sign-ins that ended with
// [Config.Use], so that all providers with one key and one such note are one, behind a load balancer too.
package openid
