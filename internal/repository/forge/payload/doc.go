// Package payload reads the requests that forges send to a webhook: [Verify] tells whether a request was made with the signing secret, and
// [Parse] what it is about.
//
//	if payload.Verify(kind, secret, r.Header, body, time.Now()) {
//		e, err := payload.Parse(kind, r.Header, body)
//	}
//
// Nothing of a request is to be believed before it is verified. After that it comes from the forge, but people wrote its texts: they are
// untrusted. Parse takes no address from a request.
//
// The forms are those of GitHub, GitLab and Gitea; Forgejo sends what Gitea sends. The package must not know what is done about a request,
// who may make one, or where secrets are. It starts no goroutine and uses no network.
package payload
