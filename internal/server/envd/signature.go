package envd

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"hortus.dev/api"
)

// The parameters of a signed address.
const (
	paramPath       = "path"
	paramUser       = "username"
	paramSignature  = "signature"
	paramExpiration = "signature_expiration"
)

// maxSigned bounds the query of a signed address, in bytes.
const maxSigned = 16 << 10

// signatureClaim is what a signature vouches for: one operation on one path, as one user,
// until a moment.
type signatureClaim struct {
	path, operation, user string
	signature             string
	expires               string // unix seconds; empty for never
}

// signedOf reads a request's signature. It is false for one that nothing could have
// signed. A user with a colon is none: it could stand for the end of another path.
func signedOf(r *http.Request, q url.Values) (signatureClaim, bool) {
	s := signatureClaim{
		path: q.Get(paramPath), user: q.Get(paramUser),
		signature: q.Get(paramSignature), expires: q.Get(paramExpiration),
	}
	switch r.Method {
	case http.MethodGet:
		s.operation = "read"
	case http.MethodPost:
		s.operation = "write"
	default:
		return s, false
	}
	for _, name := range []string{paramPath, paramUser, paramSignature, paramExpiration} {
		if len(q[name]) > 1 {
			return s, false
		}
	}
	if q.Has(paramExpiration) {
		if n, err := strconv.ParseInt(s.expires, 10, 64); err != nil || strconv.FormatInt(n, 10) != s.expires {
			return s, false
		}
	}
	return s, s.signature != "" && len(r.URL.RawQuery) <= maxSigned && !strings.Contains(s.user, ":")
}

// by computes the signature that a token gives.
func (s signatureClaim) by(token string) string {
	text := s.path + ":" + s.operation + ":" + s.user + ":" + token
	if s.expires != "" {
		text += ":" + s.expires
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// match is 1 where the signature is that of a token, and 0 where it is not, in the
// same time.
func (s signatureClaim) match(token string) int {
	return subtle.ConstantTimeCompare([]byte(s.signature), []byte(s.by(token)))
}

// expired reports whether its moment has passed. Only of one that matched.
func (d *Server) expired(s signatureClaim) bool {
	n, err := strconv.ParseInt(s.expires, 10, 64)
	return s.expires != "" && (err != nil || n < d.now().Unix())
}

// find returns the sandbox whose token made a signature. Every one is tried, whether
// or not one matched before, so that the time tells how many there are at the most.
func (s signatureClaim) find(sandboxes []api.Sandbox, t Tokens) (api.SandboxID, bool) {
	found, at := 0, 0
	for i, b := range sandboxes {
		eq := s.match(t.Envd(string(b.ID)))
		at = subtle.ConstantTimeSelect(eq, i, at)
		found |= eq
	}
	if found == 0 {
		return "", false
	}
	return sandboxes[at].ID, true
}
