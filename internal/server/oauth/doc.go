// Package oauth lets clients that cannot be given an API key, such as connectors of web applications, use POST /mcp: it is the
// authorization server and the metadata of the protected resource that the Model Context Protocol asks for (OAuth 2.1, RFC 8414,
// 8707, 9207, 9728).
//
//	s, err := oauth.New(oauth.Config{URL: "https://hortus.example.org", Secret: secret, Use: use, Verify: verify, Dial: dial})
//	s.ServeHTTP(w, r)           // the paths of which Takes is true
//	key, err := s.Key(token)    // a token that a request to the resource has
//
// A person signs in with the API key of a user, and allows a client. The tokens of the client stand for that key: they are the key,
// encrypted with a secret of the daemon, together with the client, the resource and the end. So a revoked key ends its tokens, ceilings and rates
// are those of the key, and only who has the secret can use a token, which is the resource.
//
// Nothing is stored. A client that registers is given its registration, encrypted, as its identifier; so is a request that waits for
// consent, and a code. A flood of registrations costs no memory. Only codes that were used are noted, with
// [Config.Use], until they end. So all servers with one secret and one such note are one, behind a load balancer too.
//
// A client can also be the URL of its metadata. It is fetched with [Config.Dial], which must refuse addresses that are not public,
// over HTTPS, without redirects, and bounded in size and time. The document is not believed beyond the redirect URIs that it lists
// below its own name.
//
// A [Server] has no goroutine. The package must not know where keys are kept, or what a token is used for.
package oauth
