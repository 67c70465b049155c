package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// maxSigned is the maximum size of a body that is hashed here, in bytes.
const maxSigned = 8 << 20

const payloadHash = "X-Amz-Content-Sha256"

// unsigned are headers that are not signed, because they may be changed on the way.
var unsigned = []string{"authorization", "user-agent", "accept-encoding", "connection", "expect", "transfer-encoding", "te", "x-amzn-trace-id", "x-amz-date", "x-amz-security-token", "host"}

// sign replaces the AWS signature of a request, whose header and URL belong to the caller, by one
// with real credentials for the same region and service. An error is why it cannot, or a
// *web.Refusal for the body.
func sign(ctx context.Context, r *http.Request, placeholder string, c credentials, now time.Time) error {
	s, err := parseScope(r.Header["Authorization"], placeholder)
	if err != nil {
		return err
	}
	delete(r.Header, "Authorization")
	delete(r.Header, "X-Amz-Date")
	delete(r.Header, "X-Amz-Security-Token")
	delete(r.Header, "Date")
	hash, err := hashOf(r)
	if err != nil {
		return err
	}
	if s.service == "s3" {
		r.Header[payloadHash] = []string{hash}
	}
	// The signer signs every header: it gets those that matter only.
	signed := r.Clone(ctx)
	signed.Header = http.Header{}
	for name, values := range r.Header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-amz-") || lower == "content-type" || slices.Contains(s.headers, lower) && !slices.Contains(unsigned, lower) {
			signed.Header[name] = values
		}
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = s.service == "s3" })
	err = signer.SignHTTP(ctx, aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken}, signed, hash, s.service, s.region, now)
	if err != nil {
		return errors.New("it cannot be signed")
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if v := signed.Header[name]; v != nil {
			r.Header[name] = v
		}
	}
	r.URL.RawQuery = signed.URL.RawQuery
	return nil
}

// scope is what a signature of a program says.
type scope struct {
	region, service string
	headers         []string // that it signed
}

// parseScope reads the header Authorization of a program that signed with a placeholder.
func parseScope(header []string, placeholder string) (scope, error) {
	if len(header) != 1 {
		return scope{}, errors.New("the header Authorization is there more than once")
	}
	text, ok := strings.CutPrefix(header[0], "AWS4-HMAC-SHA256 ")
	if !ok || strings.Count(text, placeholder) != 1 {
		return scope{}, errors.New("the header Authorization is not that of AWS Signature Version 4 with the placeholder as access key ID")
	}
	var s scope
	for field := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch key {
		case "Credential":
			parts := strings.Split(value, "/")
			if len(parts) != 5 || parts[0] != placeholder || parts[4] != "aws4_request" || !scopeName(parts[2]) || !scopeName(parts[3]) {
				return scope{}, errors.New("the credential scope of the signature is not valid")
			}
			s.region, s.service = parts[2], parts[3]
		case "SignedHeaders":
			s.headers = strings.Split(strings.ToLower(value), ";")
		}
	}
	if s.service == "" {
		return scope{}, errors.New("the signature has no credential scope")
	}
	return s, nil
}

func scopeName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	})
}

// hashOf returns the payload hash that is signed.
func hashOf(r *http.Request) (string, error) {
	stated := r.Header[payloadHash]
	switch {
	case len(stated) > 1:
		return "", errors.New("the header " + payloadHash + " is there more than once")
	case len(stated) == 0:
		return hashBody(r)
	case stated[0] == "UNSIGNED-PAYLOAD", stated[0] == "STREAMING-UNSIGNED-PAYLOAD-TRAILER", isHash(stated[0]):
		return stated[0], nil
	case strings.HasPrefix(stated[0], "STREAMING-"):
		return "", errors.New("its body is signed in chunks (" + clip(stated[0], 60) + "), which cannot be signed again; let the program send UNSIGNED-PAYLOAD or a hash of the body")
	}
	return "", errors.New("the header " + payloadHash + " is not valid")
}

func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}

// hashBody reads the body of a request and returns its hash.
func hashBody(r *http.Request) (string, error) {
	var b []byte
	if r.Body != nil {
		var err error
		if b, err = io.ReadAll(io.LimitReader(r.Body, maxSigned+1)); err != nil {
			return "", err
		}
		if len(b) > maxSigned {
			return "", errors.New("its body is too large to be signed; let the program send the header " + payloadHash)
		}
		r.Body.Close()
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
		if len(b) == 0 {
			r.Body = http.NoBody
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
